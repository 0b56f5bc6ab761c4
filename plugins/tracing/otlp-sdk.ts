// Imported when a receiver is set. A file of our own, since a bundled CommonJS package that is imported
// dynamically has no named exports.
export { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
export { resourceFromAttributes } from '@opentelemetry/resources'
