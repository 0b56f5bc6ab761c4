export interface TraceContext { traceId: string, parentSpanId: string }

const HEADER = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/

/** Parses a `traceparent` (W3C Trace Context, 3.2; later fields allowed); null if invalid. Pure. */
export function readTraceparent (header: string | undefined): TraceContext | null {
  const found = HEADER.exec(header ?? '')
  if (found === null) return null
  const [, version, traceId = '', parentSpanId = '', more] = found
  if (version === 'ff' || (version === '00' && more !== undefined)) return null
  return /^0+$/.test(traceId) || /^0+$/.test(parentSpanId) ? null : { traceId, parentSpanId }
}

export const writeTraceparent = (traceId: string, spanId: string): string => `00-${traceId}-${spanId}-01`

/** Derives a span's id from the root's id and its number, so that it is known before the span ends. Pure. */
export function spanIdOf (firstSpanId: string, number: number): string {
  const id = BigInt.asUintN(64, BigInt(`0x${firstSpanId}`) + BigInt(number))
  return id.toString(16).padStart(16, '0')
}
