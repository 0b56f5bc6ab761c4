/** Limits on the public listener; times in ms, sizes in bytes. */
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
