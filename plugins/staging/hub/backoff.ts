import { backoff } from '../transfer/standing.js'

const LIMITS = { backoffMs: 500, backoffMaxMs: 30_000 }

/** Milliseconds before repetition `attempt`, counted from 1; half of it by chance. Pure. */
export function backoffMs (attempt: number, random: () => number): number {
  return backoff(attempt + 1, LIMITS, random)
}
