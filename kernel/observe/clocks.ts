/** The least and the most that another clock may be ahead of this one, ms. */
export interface Bounds { lo: number, hi: number }

/** How far another clock is ahead of this one, and the possible error in either direction, ms. */
export interface ClockOffset { offsetMs: number, uncertaintyMs: number }

/**
 * A round trip, ms: sent and back by this clock, arrived and left by the other one. Without `leftMs` the
 * answer left at once.
 */
export interface RoundTrip { sentMs: number, arrivedMs: number, leftMs?: number, backMs: number }

/** Bounds on the other clock from a round trip, since no message arrives before it was sent. Pure. */
export function boundsOf ({ sentMs, arrivedMs, leftMs = arrivedMs, backMs }: RoundTrip): Bounds {
  const [a, b] = [leftMs - backMs, arrivedMs - sentMs]
  // Clocks of different speeds, or a peer that sends nonsense, may swap the two.
  return { lo: Math.min(a, b), hi: Math.max(a, b) }
}

/** The middle of the overlap of two measurements; without an overlap, `own` alone counts. Pure. */
export function clockOffset (own: Bounds, known?: Bounds): ClockOffset {
  const lo = Math.max(own.lo, known?.lo ?? own.lo)
  const hi = Math.min(own.hi, known?.hi ?? own.hi)
  const { lo: from, hi: to } = lo <= hi ? { lo, hi } : own
  return { offsetMs: (from + to) / 2, uncertaintyMs: (to - from) / 2 }
}
