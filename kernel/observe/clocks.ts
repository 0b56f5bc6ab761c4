/** The least and the most that another clock may be ahead of this one, milliseconds. */
export interface Bounds { lo: number, hi: number }

/** How far another clock is ahead of this one, and by how much that may be off either way, milliseconds. */
export interface ClockOffset { offsetMs: number, uncertaintyMs: number }

/**
 * A round trip, milliseconds: sent and back by this clock, arrived and left again by the other one. Without
 * `leftMs` it left when it arrived.
 */
export interface RoundTrip { sentMs: number, arrivedMs: number, leftMs?: number, backMs: number }

/** What a round trip says about the other clock, since nothing arrives before it was sent. Pure. */
export function boundsOf ({ sentMs, arrivedMs, leftMs = arrivedMs, backMs }: RoundTrip): Bounds {
  const [a, b] = [leftMs - backMs, arrivedMs - sentMs]
  // Clocks that run at different speeds, or a peer that sends nonsense, may swap the two.
  return { lo: Math.min(a, b), hi: Math.max(a, b) }
}

/** The middle of where two measurements overlap; where they do not, `own` alone counts. Pure. */
export function clockOffset (own: Bounds, known?: Bounds): ClockOffset {
  const lo = Math.max(own.lo, known?.lo ?? own.lo)
  const hi = Math.min(own.hi, known?.hi ?? own.hi)
  const { lo: from, hi: to } = lo <= hi ? { lo, hi } : own
  return { offsetMs: (from + to) / 2, uncertaintyMs: (to - from) / 2 }
}
