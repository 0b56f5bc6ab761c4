/** Lower and upper bound in ms on how far another clock is ahead of this one. */
export interface Bounds { lo: number, hi: number }

/** Estimate of how far another clock is ahead of this one, and the error in either direction, in ms. */
export interface ClockOffset { offsetMs: number, uncertaintyMs: number }

/**
 * Times of a round trip in ms: `sentMs` and `backMs` by this clock, the others by the other node's clock.
 * Without `leftMs`, the answer is taken to have left as soon as the message arrived.
 */
export interface RoundTrip { sentMs: number, arrivedMs: number, leftMs?: number, backMs: number }

/** Bounds on how far the other clock is ahead: no message arrives before it was sent. Pure. */
export function boundsOf ({ sentMs, arrivedMs, leftMs = arrivedMs, backMs }: RoundTrip): Bounds {
  const [a, b] = [leftMs - backMs, arrivedMs - sentMs]
  // Clocks of different speeds, or a misbehaving peer, may swap the bounds.
  return { lo: Math.min(a, b), hi: Math.max(a, b) }
}

/** The middle of the bounds. Pure. */
export function clockOffset ({ lo, hi }: Bounds): ClockOffset {
  return { offsetMs: (lo + hi) / 2, uncertaintyMs: (hi - lo) / 2 }
}
