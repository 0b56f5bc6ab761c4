import { COUNTS, type Counts } from './declarations.js'
import type { EndedTask } from '../../runners/service.js'

/** Limits on days, on the rows of a day, and on requests whose last task may still follow. */
export const DAYS_MAX = 62
export const ROWS_MAX = 400
const RECENT_MAX = 1000
/** Caller and model of the row that counts what is beyond the limit. */
export const OTHER = 'other'

export interface Row { readonly day: string, readonly caller: string, readonly model: string, counts: Counts }

export const zero = (): Counts => Object.fromEntries(COUNTS.map((name) => [name, 0])) as Counts

export function addTo (sum: Counts, more: Counts): void { for (const name of COUNTS) sum[name] += more[name] }

/** Counts by UTC day, caller and model. Without clock and file. */
export class UsageTable {
  /** Rows by caller and model, by day. */
  readonly #days = new Map<string, Map<string, Row>>()
  readonly #recent = new Map<string, { counts: Counts, failed: number }>()

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

  /** The row to which counts are added; that of `other` if the day is full. */
  row (day: string, caller: string, model: string): Row {
    const rows = this.#days.get(day) ?? new Map<string, Row>()
    if (rows.size === 0) this.#days.set(day, rows)
    if (this.#days.size > DAYS_MAX) {
      // A clock that was set back makes `day` the oldest.
      this.#days.delete([...this.#days.keys()].filter((one) => one !== day).sort()[0]!)
    }
    const key = `${caller}\n${model}`
    if (!rows.has(key) && rows.size >= ROWS_MAX && caller !== OTHER) return this.row(day, OTHER, OTHER)
    const row = rows.get(key) ?? { day, caller, model, counts: zero() }
    rows.set(key, row)
    return row
  }

  /** Prompt and output tokens of these callers on a day. */
  tokens (day: string, callers: readonly string[]): number {
    return [...this.#days.get(day)?.values() ?? []].filter(({ caller }) => callers.includes(caller))
      .reduce((sum, { counts }) => sum + counts.prompt_tokens + counts.output_tokens, 0)
  }

  * rows (): Iterable<Row> {
    for (const rows of this.#days.values()) yield * rows.values()
  }
}
