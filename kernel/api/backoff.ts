/**
 * Milliseconds to the next attempt after `attempts` failed ones, doubling from `minMs` to `maxMs`. `random`
 * (uniform in [0, 1)) spreads it over the upper half, so that nodes do not retry in step; 1: no spread.
 */
export function backoffMs (
  attempts: number, limits: { minMs: number, maxMs: number }, random: number
): number {
  const whole = Math.min(limits.maxMs, limits.minMs * 2 ** Math.min(30, Math.max(0, attempts - 1)))
  return whole / 2 + random * whole / 2
}
