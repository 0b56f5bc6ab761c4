import type { Amount } from '../capabilities/service.js'

/** What a caller may spend in a day (UTC) unasked, and has spent today; billionths of the unit. */
export interface Budget {
  readonly caller: string
  readonly unit: string
  readonly perDay: number
  readonly spent: number
}

/** What is kept on disk. */
export interface StoredBudgets { readonly day: string, readonly budgets: readonly Budget[] }

/** Budgets of a node. */
export const BUDGETS_MOST = 1000
/** The disk is ahead of what was spent by up to this part of the budget: it is written so often a day. */
const STEPS = 20

/** A file of another shape could allow anything. */
export const keptSchema = {
  type: 'object', required: ['day', 'budgets'],
  properties: {
    day: { type: 'string', pattern: '^\\d{4}-\\d{2}-\\d{2}$' },
    budgets: {
      type: 'array', maxItems: BUDGETS_MOST,
      items: {
        type: 'object', required: ['caller', 'unit', 'perDay', 'spent'],
        properties: {
          caller: { type: 'string' }, unit: { type: 'string' },
          perDay: { type: 'integer', minimum: 0 }, spent: { type: 'integer', minimum: 0 }
        }
      }
    }
  }
} as const

interface Row extends Budget { spent: number, onDisk: number }

/**
 * What may be spent without asking. What is spent is on disk before it counts as allowed: after a crash up to
 * a twentieth of a budget more counts as spent than was, and never less.
 */
export class Budgets {
  readonly #today: () => string
  readonly #keep: (kept: StoredBudgets) => void
  readonly #rows = new Map<string, Row>()
  #day: string

  /** `keep` writes to disk and throws when it cannot. */
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

  /** Takes the amount from the caller's budget of today; false when that is not enough, or cannot be kept. */
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

  /** Sets what a caller may spend in a day; 0 for nothing. Throws what `keep` does, with nothing changed. */
  set (caller: string, { unit, nano }: Amount): void {
    this.#turnDay()
    const key = keyOf(caller, unit)
    const before = this.#rows.get(key)
    const { spent = 0, onDisk = 0 } = before ?? {}
    this.#rows.set(key, { caller, unit, perDay: nano, spent, onDisk })
    // What was spent is known until tomorrow, so that a budget which is ended and set anew is no second one.
    if (nano === 0 && spent === 0) this.#rows.delete(key)
    try {
      this.#write((row) => row.onDisk)
    } catch (error) {
      if (before === undefined) this.#rows.delete(key)
      else this.#rows.set(key, before)
      throw error
    }
  }

  /** Whether another caller may get one. */
  hasRoomFor (caller: string, { unit }: Amount): boolean {
    return this.#rows.size < BUDGETS_MOST || this.#rows.has(keyOf(caller, unit))
  }

  all (): Budget[] {
    this.#turnDay()
    return [...this.#rows.values()].map(({ onDisk: _, ...budget }) => budget)
  }

  /** At an orderly end: what was spent to the point. */
  close (): void {
    const exact = [...this.#rows.values()].every(({ spent, onDisk }) => spent === onDisk)
    if (!exact) this.#write((row) => row.spent)
  }

  #turnDay (): void {
    const today = this.#today()
    // A clock that was put back gives nobody a new day.
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
