import { defineService } from './plugin.js'
import type { Caller } from './plugin.js'

export interface Amount {
  /** As declared: `EUR`. */
  readonly unit: string
  /** Billionths of the unit, a whole number. */
  readonly nano: number
}

export interface Expense {
  readonly capability: string
  readonly commandId: string
  readonly caller: Caller
  readonly amount: Amount
  /** Aborts when the caller has gone. */
  readonly signal: AbortSignal
}

/** Approves expenses. The kernel asks whichever plugin provides it. */
export interface Spending {
  /**
   * Resolves when the call may be made. Throws `approval_denied`, `approval_timeout`, `overloaded`,
   * `plugin_disabled`, and the reason of the signal.
   */
  allow (expense: Expense): Promise<void>
}
export const SpendingService = defineService<Spending>('kernel.spending')
