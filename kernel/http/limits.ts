import type { KernelConfig } from '../config/kernel-settings.js'

/** Limits on the listener and on calls, from svc.yaml, in ms and bytes. */
export function limitsOf ({ limits: l }: KernelConfig) {
  return {
    limits: {
      connections: l.connections, connectionsPerAddress: l.connections_per_address,
      streamsPerToken: l.streams_per_token, headersTimeoutMs: l.headers_timeout_seconds * 1000,
      requestTimeoutMs: l.request_timeout_seconds * 1000, keepAliveMs: l.keep_alive_seconds * 1000,
      handlerTimeoutMs: l.handler_timeout_seconds * 1000, bodyBytes: l.body_kib * 1024,
      streamStallMs: l.stream_stall_seconds * 1000
    },
    callLimits: {
      concurrency: l.calls_at_once, queue: l.calls_queued, streamBytes: l.stream_buffer_kib * 1024,
      streamStallMs: l.stream_stall_seconds * 1000, mediaBytes: l.media_buffer_kib * 1024,
      mediaStallMs: l.media_stall_seconds * 1000
    }
  }
}

/** Limits on the public listener; times in ms, sizes in bytes. */
export type HttpLimits = ReturnType<typeof limitsOf>['limits']
