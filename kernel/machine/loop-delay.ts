import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 10

/** How late the event loop was, in ms beyond what a timer asks for. */
export interface LoopDelay { p50: number, p99: number, max: number }

export interface LoopMonitor {
  /** Figures since the start or the last reset. */
  read (): LoopDelay
  reset (): void
  stop (): void
}

/** Watches the event loop. Node's histogram counts its own sampling period in; it is taken off here. */
export function monitorLoop (): LoopMonitor {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  histogram.enable()
  const beyond = (ns: number): number => Math.max(0, ns / 1e6 - RESOLUTION_MS)
  return {
    read: () => ({
      p50: beyond(histogram.percentile(50)),
      p99: beyond(histogram.percentile(99)),
      max: beyond(histogram.max)
    }),
    reset () { histogram.reset() },
    stop () { histogram.disable() }
  }
}
