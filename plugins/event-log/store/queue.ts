import type { Entry } from '../entries.js'
import type { Snapshot } from './types.js'
import type { Gap } from './missing.js'

/** A row of the table of events. */
export interface Row {
  readonly idx: number
  readonly prev: number
  /** When it happened, ms since 1970. */
  readonly ms: number
  readonly entry: Entry
  /** Text of a row for SQLite: a JSON array. */
  readonly text: string
}

/** What the writer is to do, in this order. */
export type Op =
  | { readonly type: 'append', readonly row: Row }
  | { readonly type: 'snapshot', readonly snapshot: Snapshot }
  | { readonly type: 'cut', readonly after: number }
  | GapOp

/** These indices will not be written. `told`: an event in the log is to say so. */
export interface GapOp { readonly type: 'gap', readonly gap: Gap, readonly told: boolean }

export interface QueueLimits { readonly entries: number, readonly bytes: number }

/** What waits for the writer. */
export class WriteQueue {
  readonly #limits: QueueLimits
  #ops: Op[] = []
  #taken: Op[] = []
  #bytes = 0
  #entries = 0

  constructor (limits: QueueLimits) { this.#limits = limits }

  /** Bytes that wait, or are being written. */
  get bytes (): number { return this.#bytes }

  /** Entries that wait, or are being written. */
  get entries (): number { return this.#entries }

  /** What waits, or is being written, in order. */
  get all (): readonly Op[] { return [...this.#taken, ...this.#ops] }

  get waiting (): number { return this.#ops.length }

  /** True when something of so many bytes may wait too. */
  fits (bytes: number): boolean {
    return this.#entries < this.#limits.entries && this.#bytes + bytes <= this.#limits.bytes
  }

  push (op: Op): void {
    this.#ops.push(op)
    this.#bytes += sizeOf(op)
    if (op.type === 'append') this.#entries++
  }

  /** The next group: at most so many entries and bytes, but at least one thing; a cut is alone. */
  take (most: QueueLimits): readonly Op[] {
    let bytes = 0
    let entries = 0
    let n = 0
    for (const op of this.#ops) {
      if (op.type === 'cut' && n > 0) break
      bytes += sizeOf(op)
      if (op.type === 'append') entries++
      if (n > 0 && (bytes > most.bytes || entries > most.entries)) break
      n++
      if (op.type === 'cut') break
    }
    this.#taken = this.#ops.splice(0, n)
    return this.#taken
  }

  /** The group that was taken is done. */
  done (): void {
    for (const op of this.#taken) this.#leave(op)
    this.#taken = []
  }

  /** The group that was taken is not done: it comes first again, behind `first`. */
  putBack (first: readonly Op[]): void {
    for (const op of first) this.#bytes += sizeOf(op)
    this.#ops.unshift(...first, ...this.#taken)
    this.#taken = []
  }

  /** Takes everything out, what was taken for writing too, in order. */
  drain (): Op[] {
    const all = [...this.#taken, ...this.#ops]
    this.#taken = []
    this.#ops = []
    this.#bytes = 0
    this.#entries = 0
    return all
  }

  #leave (op: Op): void {
    this.#bytes -= sizeOf(op)
    if (op.type === 'append') this.#entries--
  }
}

/** Rough bytes of an operation in memory and on disk. */
export function sizeOf (op: Op): number {
  if (op.type === 'append') return op.row.text.length
  return op.type === 'snapshot' ? op.snapshot.body.length + 100 : 50
}
