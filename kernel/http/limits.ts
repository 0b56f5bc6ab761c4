import type { CapabilityLimits } from '../calls/limits.js'
import type { KernelConfig } from '../config/kernel-settings.js'

/** Limits of the public listener; times in ms, sizes in bytes. */
export interface HttpLimits {
  connections: number
  connectionsPerAddress: number
  streamsPerToken: number
  headersTimeoutMs: number
  requestTimeoutMs: number
  keepAliveMs: number
  handlerTimeoutMs: number
  bodyBytes: number
  streamStallMs: number
}

/** The listener's and the calls' limits out of svc.yaml, in ms and bytes. */
export function limitsOf (keys: KernelConfig): { limits: HttpLimits, callLimits: Partial<CapabilityLimits> } {
  const { limits: l } = keys
  return {
    limits: {
      connections: l.connections,
      connectionsPerAddress: l.connections_per_address,
      streamsPerToken: l.streams_per_token,
      headersTimeoutMs: l.headers_timeout_seconds * 1000,
      requestTimeoutMs: l.request_timeout_seconds * 1000,
      keepAliveMs: l.keep_alive_seconds * 1000,
      handlerTimeoutMs: l.handler_timeout_seconds * 1000,
      bodyBytes: l.body_kib * 1024,
      streamStallMs: l.stream_stall_seconds * 1000
    },
    callLimits: {
      concurrency: l.calls_at_once,
      queue: l.calls_queued,
      streamBytes: l.stream_buffer_kib * 1024,
      streamStallMs: l.stream_stall_seconds * 1000,
      mediaBytes: l.media_buffer_kib * 1024,
      mediaStallMs: l.media_stall_seconds * 1000
    }
  }
}
