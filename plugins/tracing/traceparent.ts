/** The ids of a W3C trace context. */
export interface TraceContext { traceId: string, parentSpanId: string }

const HEADER = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/

/**
 * The ids in a `traceparent` header; null for one that is absent or that the recommendation tells to ignore
 * (W3C Trace Context, 3.2). Later versions may have more fields. Pure.
 */
export function readTraceparent (header: string | undefined): TraceContext | null {
  const found = HEADER.exec(header ?? '')
  if (found === null) return null
  const [, version, traceId = '', parentSpanId = '', more] = found
  if (version === 'ff' || (version === '00' && more !== undefined)) return null
  return /^0+$/.test(traceId) || /^0+$/.test(parentSpanId) ? null : { traceId, parentSpanId }
}

/** The header that names a span as the parent of what follows. Pure. */
export const writeTraceparent = (traceId: string, spanId: string): string => `00-${traceId}-${spanId}-01`

/**
 * The id by which other systems know a span of a trace: the id of its first span plus the number of the span.
 * So a hop has its id before it is over, and every export of a trace has the same ids. Pure.
 */
export function spanIdOf (firstSpanId: string, number: number): string {
  const id = BigInt.asUintN(64, BigInt(`0x${firstSpanId}`) + BigInt(number))
  return id.toString(16).padStart(16, '0')
}
