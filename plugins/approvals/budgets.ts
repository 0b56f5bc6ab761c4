import { openObject, type FromSchema } from '../../kernel/index.js'
import type { Amount } from '../capabilities/service.js'

export const BUDGETS_MOST = 1000
/** Maximum writes per budget per day; the file may overstate the spending by 1/STEPS of the budget. */
const STEPS = 20

/** Schema of the budget file, which is validated because an invalid file could allow any amount. */
export const keptSchema = openObject({
  day: { type: 'string', pattern: '^\\d{4}-\\d{2}-\\d{2}$' },
  budgets: {
    type: 'array', maxItems: BUDGETS_MOST,
    items: openObject({
      caller: { type: 'string' }, unit: { type: 'string' },
      perDay: { type: 'integer', minimum: 0 }, spent: { type: 'integer', minimum: 0 }
    })
  }
})

export type StoredBudgets = FromSchema<typeof keptSchema>

/** A caller's daily (UTC) allowance for calls without approval, and today's spending, in 1e-9 units. */
export type Budget = StoredBudgets['budgets'][number]

interface Row extends Budget { spent: number, onDisk: number }

/**
 * Budgets that callers may spend without approval. Spending is on disk before it is allowed: after a crash,
 * up to 1/20 of a budget counts as spent although it was not, but never the reverse.
 */
export class Budgets {
  readonly #today: () => string
  readonly #keep: (kept: StoredBudgets) => void
  readonly #rows = new Map<string, Row>()
  #day: string

  /** `keep` writes to disk and throws on failure. */
  constructor (
    options: { today: () => string, keep: (kept: StoredBudgets) => void, kept: StoredBudgets | null }
  ) {
    const { today, keep, kept } = options
    this.#today = today
    this.#keep = keep
    this.#day = kept?.day ?? today()
    for (const budget of kept?.budgets ?? []) {
      this.#rows.set(keyOf(budget.caller, budget.unit), { ...budget, onDisk: budget.spent })
    }
  }

  /** Deducts the amount from today's budget; false if the budget is too small or the disk write fails. */
  take (caller: string, { unit, nano }: Amount): boolean {
    if (nano === 0) return true
    this.#turnDay()
    const row = this.#rows.get(keyOf(caller, unit))
    if (row === undefined || row.spent + nano > row.perDay) return false
    const spent = row.spent + nano
    if (spent > row.onDisk && !this.#reserve(row, spent)) return false
    row.spent = spent
    return true
  }

  /** Sets the daily allowance; 0 ends it. If `keep` fails, throws its error and changes nothing. */
  set (caller: string, { unit, nano }: Amount): void {
    this.#turnDay()
    const key = keyOf(caller, unit)
    const before = this.#rows.get(key)
    const { spent = 0, onDisk = 0 } = before ?? {}
    this.#rows.set(key, { caller, unit, perDay: nano, spent, onDisk })
    // Keep today's spending, so that ending and setting a budget again does not reset it.
    if (nano === 0 && spent === 0) this.#rows.delete(key)
    try {
      this.#write((row) => row.onDisk)
    } catch (error) {
      if (before === undefined) this.#rows.delete(key)
      else this.#rows.set(key, before)
      throw error
    }
  }

  hasRoomFor (caller: string, { unit }: Amount): boolean {
    return this.#rows.size < BUDGETS_MOST || this.#rows.has(keyOf(caller, unit))
  }

  all (): Budget[] {
    this.#turnDay()
    return [...this.#rows.values()].map(({ onDisk: _, ...budget }) => budget)
  }

  /** Writes the exact spending on a clean shutdown. */
  close (): void {
    const exact = [...this.#rows.values()].every(({ spent, onDisk }) => spent === onDisk)
    if (!exact) this.#write((row) => row.spent)
  }

  #turnDay (): void {
    const today = this.#today()
    // Setting the clock back must not start a new day.
    if (today <= this.#day) return
    this.#day = today
    for (const [key, row] of this.#rows) {
      if (row.perDay === 0) this.#rows.delete(key)
      else Object.assign(row, { spent: 0, onDisk: 0 })
    }
  }

  #reserve (row: Row, spent: number): boolean {
    const before = row.onDisk
    row.onDisk = Math.min(row.perDay, spent + Math.floor(row.perDay / STEPS))
    try {
      this.#write((one) => one.onDisk)
      return true
    } catch {
      row.onDisk = before
      return false
    }
  }

  #write (spentOf: (row: Row) => number): void {
    const budgets = [...this.#rows.values()].map((row) =>
      ({ caller: row.caller, unit: row.unit, perDay: row.perDay, spent: spentOf(row) }))
    this.#keep({ day: this.#day, budgets })
  }
}

const keyOf = (caller: string, unit: string): string => `${unit} ${caller}`
