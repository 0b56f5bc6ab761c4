/** The telemetry plane: lossy, bounded, latest wins. It carries what a node reads of its machine. */
export { createTelemetry } from './telemetry.js'
export type { Reading, Telemetry, TelemetryOptions } from './telemetry.js'
export type { TelemetryBody } from './message.js'
export type { TelemetryCounters } from './counters.js'
