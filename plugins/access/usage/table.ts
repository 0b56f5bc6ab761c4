import { COUNTS, type Counts } from './declarations.js'
import type { EndedTask } from '../../runners/service.js'

/** Limits on days, on rows of all days, and on requests whose last task may still follow. */
export const DAYS_MAX = 62
export const ROWS_MAX = 10_000
const RECENT_MAX = 1000
/** Caller and model of the row into which rows beyond the limit are merged. */
export const OTHER = 'other'

export interface Row { readonly day: string, readonly caller: string, readonly model: string, counts: Counts }

export const zero = (): Counts => Object.fromEntries(COUNTS.map((name) => [name, 0])) as Counts

export function addTo (sum: Counts, more: Counts): void { for (const name of COUNTS) sum[name] += more[name] }

/** Counts by UTC day, caller and model. Without clock and file. */
export class UsageTable {
  /** Rows by caller and model, by day. */
  readonly #days = new Map<string, Map<string, Row>>()
  readonly #recent = new Map<string, { counts: Counts, failed: number }>()
  #size = 0

  /** Adds a task of a request that entered at this node. */
  add (day: string, task: EndedTask): void {
    const { commandId, callerId, modelId, status, tokens, heardSeconds, audioSeconds } = task
    const { counts } = this.row(day, callerId, modelId)
    // A request may have several tasks, such as a second attempt: the last one decides how it counts.
    const before = this.#recent.get(commandId)
    if (before !== undefined) {
      before.counts.requests--
      before.counts.failed -= before.failed
    }
    const failed = status === 'Failed' || status === 'TimedOut' ? 1 : 0
    this.#recent.set(commandId, { counts, failed })
    if (this.#recent.size > RECENT_MAX) this.#recent.delete(this.#recent.keys().next().value!)
    addTo(counts, {
      requests: 1, failed, prompt_tokens: tokens?.prompt ?? 0, cached_tokens: tokens?.cached ?? 0,
      output_tokens: tokens?.generated ?? 0, sound_in_seconds: heardSeconds, sound_out_seconds: audioSeconds
    })
  }

  /** The row to which counts are added; that of `other` if there is no room. */
  row (day: string, caller: string, model: string): Row {
    const key = `${caller}\n${model}`
    const rows = this.#days.get(day) ?? new Map<string, Row>()
    this.#days.set(day, rows)
    const known = rows.get(key)
    if (known !== undefined) return known
    if (this.#days.size > DAYS_MAX) this.#dropBut(day)
    if (this.#size >= ROWS_MAX && caller !== OTHER && !this.#mergeBefore(day)) {
      return this.row(day, OTHER, OTHER)
    }
    const row = { day, caller, model, counts: zero() }
    rows.set(key, row)
    this.#size++
    return row
  }

  * rows (): Iterable<Row> {
    for (const rows of this.#days.values()) yield * rows.values()
  }

  /** Removes the oldest day other than `day`, which is older if the clock was set back. */
  #dropBut (day: string): void {
    const [oldest] = [...this.#days.keys()].filter((one) => one !== day).sort()
    this.#size -= this.#days.get(oldest!)!.size
    this.#days.delete(oldest!)
  }

  /** Merges the rows of the oldest day before `day` that has several; false if there is none. */
  #mergeBefore (day: string): boolean {
    const found = [...this.#days].sort(([a], [b]) => a < b ? -1 : 1)
      .find(([one, rows]) => one < day && rows.size > 1)
    if (found === undefined) return false
    const [one, rows] = found
    const counts = zero()
    for (const row of rows.values()) addTo(counts, row.counts)
    this.#days.set(one, new Map([[`${OTHER}\n${OTHER}`, { day: one, caller: OTHER, model: OTHER, counts }]]))
    this.#size -= rows.size - 1
    return true
  }
}
