/**
 * Delay in ms before the next attempt after `attempts` failures; doubles from `minMs` to `maxMs`. `random` (0
 * to 1) picks a value between half and all of that, so that nodes do not retry in step.
 */
export function backoffMs (
  attempts: number, limits: { minMs: number, maxMs: number }, random: number
): number {
  const whole = Math.min(limits.maxMs, limits.minMs * 2 ** Math.min(30, Math.max(0, attempts - 1)))
  return whole / 2 + random * whole / 2
}
