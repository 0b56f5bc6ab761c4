import { kindOf, type Entry } from '../log/entries.js'
import type { Snapshot } from './types.js'

export interface Row {
  readonly ms: number
  readonly idx: number
  /** The previous index: if the row before this one on disk has a smaller index, events are missing. */
  readonly prev: number
  /** A JSON array of time, kind and entry, for SQLite's JSON functions. */
  readonly text: string
}

/** Operations for the writer, which executes them in queue order. */
export type Op =
  | { readonly type: 'append', readonly row: Row }
  | { readonly type: 'snapshot', readonly snapshot: Snapshot }
  | { readonly type: 'cut', readonly after: number }
  /** Resolves when all operations before it are done. */
  | { readonly type: 'mark', readonly resolve: () => void }

/** The row of an entry. `json`: the entry as JSON, if known; `lost`: newest index known to be lost. */
export function rowOf (entry: Entry, json = JSON.stringify(entry), lost = 0): Row {
  // The time is from another node's clock, and may be invalid.
  const ms = Date.parse(entry.at) || 0
  const prev = Math.max(entry.prev, lost)
  return { ms, idx: entry.idx, prev, text: `[${ms},${JSON.stringify(kindOf(entry.event))},${json}]` }
}

export const rowsOf = (ops: readonly Op[]): Row[] => ops.flatMap((op) => op.type === 'append' ? [op.row] : [])

/** Approximate bytes that an operation takes in memory and on disk. */
export function sizeOf (op: Op): number {
  if (op.type === 'append') return op.row.text.length
  return op.type === 'snapshot' ? op.snapshot.body.length + 100 : 50
}

export class WriteQueue {
  ops: Op[] = []
  bytes = 0
  entries = 0
  #marks = 0

  get rows (): Row[] { return rowsOf(this.ops) }

  /** True while a caller waits for the queue. */
  get awaited (): boolean { return this.#marks > 0 }

  get top (): number {
    return this.ops.reduce((top, op) => op.type === 'cut' ? Math.min(top, op.after) : top,
      Number.MAX_SAFE_INTEGER)
  }

  push (op: Op): void {
    this.ops.push(op)
    this.#count(op, 1)
  }

  /** The next operations to write together: within both limits, but at least one; a cut is never grouped. */
  next (mostOps: number, mostBytes: number): Op[] {
    const group: Op[] = []
    let bytes = 0
    for (const op of this.ops) {
      bytes += sizeOf(op)
      const alone = op.type === 'cut' || group[0]?.type === 'cut'
      if (group.length > 0 && (alone || group.length >= mostOps || bytes > mostBytes)) break
      group.push(op)
    }
    return group
  }

  done (count: number): Op[] {
    const ops = this.ops.splice(0, count)
    for (const op of ops) {
      this.#count(op, -1)
      if (op.type === 'mark') op.resolve()
    }
    return ops
  }

  #count (op: Op, sign: 1 | -1): void {
    this.bytes += sign * sizeOf(op)
    if (op.type === 'append') this.entries += sign
    if (op.type === 'mark') this.#marks += sign
  }
}
