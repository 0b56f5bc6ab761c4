import { defineService } from './plugin.js'
import type { Caller } from './plugin.js'

/** An amount of something that is paid with. */
export interface Amount {
  /** As declared: `EUR`. */
  readonly unit: string
  /** Billionths of the unit, a whole number. */
  readonly nano: number
}

/** A call that costs something and is yet to be made. */
export interface Expense {
  /** `id@version`. */
  readonly capability: string
  readonly commandId: string
  readonly caller: Caller
  readonly amount: Amount
  /** Aborts when nobody waits for the call any more. */
  readonly signal: AbortSignal
}

/** Says what may be spent. The kernel asks whichever plugin provides it. */
export interface Spending {
  /**
   * Resolves when the call may be made, at once or after somebody has approved it. Throws `approval_denied`,
   * `approval_timeout`, `overloaded`, `plugin_disabled`, and the reason of the signal.
   */
  allow (expense: Expense): Promise<void>
}
export const SpendingService = defineService<Spending>('kernel.spending')
