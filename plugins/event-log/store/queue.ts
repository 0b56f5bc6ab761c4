import { kindOf } from '../log/entries.js'
import { asOne } from './gaps.js'
import { PAGE_ROWS } from './limits.js'
import type { Entry } from '../log/entries.js'
import type { Gap } from './gaps.js'
import type { Snapshot, StoreQuery } from './types.js'

/** A row of the table of events. */
export interface Row {
  /** When it happened, ms since 1970. */
  readonly ms: number
  readonly entry: Entry
  /** A JSON array of time, kind and entry, as SQLite takes it. */
  readonly text: string
}

/** What the writer is to do, in this order. */
export type Op =
  | { readonly type: 'append', readonly row: Row }
  | { readonly type: 'snapshot', readonly snapshot: Snapshot }
  | { readonly type: 'cut', readonly after: number }
  /** These events, at least one run of them, will not be written. */
  | { readonly type: 'gap', readonly runs: readonly Gap[] }
  /** Somebody waits until everything before is done. */
  | { readonly type: 'mark', readonly resolve: () => void }

interface QueueLimits { readonly entries: number, readonly bytes: number }

/** The row of an entry; `json`: the entry as JSON, if it is at hand. */
export function rowOf (entry: Entry, json = JSON.stringify(entry)): Row {
  // The clock of another node, or none at all.
  const ms = Date.parse(entry.at) || 0
  return { ms, entry, text: `[${ms},${JSON.stringify(kindOf(entry.event))},${json}]` }
}

/** Rough bytes of an operation in memory and on disk. */
export function sizeOf (op: Op): number {
  if (op.type === 'append') return op.row.text.length
  return op.type === 'snapshot' ? op.snapshot.body.length + 100 : 50
}

/** The gaps among these operations. */
export const gapsOf = (ops: readonly Op[]): Gap[] =>
  ops.flatMap((op) => op.type === 'gap' ? [asOne(op.runs)] : [])

/** What waits for the writer, or is being written. */
export class WriteQueue {
  readonly #limits: QueueLimits
  #ops: Op[] = []
  #bytes = 0
  #entries = 0
  #marks = 0

  constructor (limits: QueueLimits) { this.#limits = limits }

  get bytes (): number { return this.#bytes }

  get entries (): number { return this.#entries }

  get empty (): boolean { return this.#ops.length === 0 }

  /** True while somebody waits for what is in it. */
  get awaited (): boolean { return this.#marks > 0 }

  /** True when something of so many bytes may wait too. */
  fits (bytes: number): boolean {
    return this.#entries < this.#limits.entries && this.#bytes + bytes <= this.#limits.bytes
  }

  push (op: Op): void {
    this.#ops.push(op)
    this.#count(op, 1)
  }

  /** The next group: at most so many entries and bytes, but at least one thing; a cut is alone. */
  next (most: QueueLimits): readonly Op[] {
    let bytes = 0
    let entries = 0
    const n = this.#ops.findIndex((op, i) => {
      bytes += sizeOf(op)
      if (op.type === 'append') entries++
      const after = this.#ops[i - 1]
      return after !== undefined &&
        (op.type === 'cut' || after.type === 'cut' || bytes > most.bytes || entries > most.entries)
    })
    return this.#ops.slice(0, n < 0 ? undefined : n)
  }

  /** So many operations are done. */
  done (count: number): Op[] {
    const ops = this.#ops.splice(0, count)
    for (const op of ops) {
      this.#count(op, -1)
      if (op.type === 'mark') op.resolve()
    }
    return ops
  }

  /** Takes everything out, in order. */
  drain (): Op[] { return this.done(this.#ops.length) }

  /** What the disk will have once all is done: these entries, and of its own those up to index `top`. */
  pending (): { top: number, entries: Entry[] } {
    let entries: Entry[] = []
    let top = Number.MAX_SAFE_INTEGER
    for (const op of this.#ops) {
      if (op.type === 'append') {
        top = Math.min(top, op.row.entry.idx - 1)
        entries.push(op.row.entry)
      } else if (op.type === 'cut') {
        top = Math.min(top, op.after)
        entries = entries.filter(({ idx }) => idx <= op.after)
      }
    }
    return { top, entries }
  }

  /**
   * A page of what is on the disk and what waits, as if all of it were on the disk. `fromDisk` reads the
   * entries up to `top`.
   */
  async page (query: StoreQuery, fromDisk: (query: StoreQuery, top: number) => Promise<Entry[]>):
  Promise<Entry[]> {
    const { newest = false, after } = query
    const { top, entries } = this.pending()
    const waiting = matching(entries, query)
    const limit = Math.min(Math.max(1, query.limit), PAGE_ROWS)
    const wanted = newest ? limit - waiting.length : limit
    const older = wanted <= 0 || after >= top ? [] : await fromDisk({ ...query, limit: wanted }, top)
    const all = [...older, ...waiting]
    return newest ? all.slice(-limit) : all.slice(0, limit)
  }

  #count (op: Op, sign: 1 | -1): void {
    this.#bytes += sign * sizeOf(op)
    if (op.type === 'append') this.#entries += sign
    if (op.type === 'mark') this.#marks += sign
  }
}

/** Those of the entries that a query asks for; its limit is left aside. */
export function matching (
  entries: readonly Entry[], query: Omit<StoreQuery, 'limit' | 'newest'>
): Entry[] {
  const { after, until = Infinity, kinds, origins, sinceMs } = query
  return entries.filter((entry) => entry.idx > after && entry.idx <= until &&
    (kinds === undefined || kinds.includes(kindOf(entry.event))) &&
    (origins === undefined || origins.includes(entry.origin)) &&
    (sinceMs === undefined || Date.parse(entry.at) >= sinceMs))
}
