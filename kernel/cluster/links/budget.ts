/** A token bucket; time is given, in milliseconds of any monotonic clock. */
export interface Budget {
  /**
   * Takes `amount`, even when that leaves a debt: what has arrived cannot be sent back. Returns how many
   * milliseconds nothing more may be taken, at most MAX_DEBT_MS; 0 when there is no debt.
   */
  take (amount: number, nowMs: number): number
}

/**
 * Debts beyond this are forgiven: a burst of many small frames that arrived as one must not silence a peer so
 * long that it is taken for dead.
 */
export const MAX_DEBT_MS = 500

/** A bucket that fills with `perSecond` up to `burst` and begins full. */
export function createBudget (perSecond: number, burst: number, startMs: number): Budget {
  let level = burst
  let at = startMs
  return {
    take (amount, nowMs) {
      const passed = Math.max(0, nowMs - at)
      at = Math.max(at, nowMs)
      const filled = Math.min(burst, level + passed * perSecond / 1000)
      level = Math.max(filled - amount, -perSecond * MAX_DEBT_MS / 1000)
      return level >= 0 ? 0 : Math.ceil(-level * 1000 / perSecond)
    }
  }
}
