import { Missing } from './missing.js'
import { merged, within } from './ranges.js'
import type { Gap } from './missing.js'
import type { GapOp, Op } from './queue.js'
import type { Range } from './ranges.js'

/** An entry as the books need it. */
interface Place { readonly idx: number, readonly prev: number }

/** The books of the store: where it ends, and which events are not in it. No file and no clock in here. */
export class Ledger {
  /** Newest index that was appended, written or not. */
  tail: number
  /** Events counted and not written, since the start. */
  counted = 0
  /** Events for which there was no room in the queue, since the start. */
  dropped = 0
  /** Gaps that are written, or on their way. */
  #gaps: Range[]
  /** Gaps that are to be written as soon as anything can be. */
  #owed: GapOp[] = []
  #missing = new Missing()
  /** What was lost before the start, unless it comes back from another node. */
  #lost: Gap | null
  #coming = false

  constructor ({ tail, gaps, lost }: { tail: number, gaps: readonly Range[], lost: Gap | null }) {
    this.tail = tail
    this.#gaps = merged(gaps)
    this.#lost = lost
  }

  /** The events in a row that are not written now. */
  get missing (): Gap | null { return this.#missing.gap }

  /** What is not written now, or was not before a stop: to be remembered over the next stop. */
  get toRemember (): Gap | null { return this.#missing.gap ?? (this.#coming ? null : this.#lost) }

  /** Every range of indices that is not in the store. */
  get gaps (): Range[] {
    const missing = this.#missing.gap
    const lost = this.#coming ? null : this.#lost
    return merged([...this.#gaps, ...this.#owed.map(({ gap }) => rangeOf(gap)),
      ...[missing, lost].filter((gap) => gap !== null).map(rangeOf)])
  }

  /** An entry will be written. Returns the gaps to be written before it. */
  accept (entry: Place): GapOp[] {
    this.#resolveLost(entry)
    const ops = this.release()
    if (entry.prev > this.tail) ops.push(this.#note({ from: this.tail + 1, to: entry.prev, count: 0 }, false))
    this.tail = Math.max(this.tail, entry.idx)
    return ops
  }

  /** An entry will not be written. */
  miss (entry: Place, why: 'counted' | 'dropped'): void {
    this.#resolveLost(entry)
    this[why]++
    this.#missing.add(entry.prev, entry.idx)
    this.tail = Math.max(this.tail, entry.idx)
  }

  /** What waited will not be written after all; all of it is older than what is missing already. */
  refuse (ops: readonly Op[]): void {
    const refused = new Missing()
    let gaps: GapOp[] = []
    for (const op of ops) {
      if (op.type === 'gap') gaps.push(op)
      if (op.type === 'cut') {
        gaps = upTo(op.after, gaps)
        refused.cut(op.after)
      }
      if (op.type !== 'append') continue
      this.counted++
      refused.add(op.row.prev, op.row.idx)
    }
    this.#owed.push(...gaps)
    refused.join(this.#missing)
    this.#missing = refused
  }

  /** The gaps that can be written now: there is room again. */
  release (): GapOp[] {
    const missing = this.#missing.gap
    this.#missing.clear()
    return [...this.#owed.splice(0), ...missing === null ? [] : [this.#note(missing, true)]]
  }

  /** As `release`, but nothing changes. */
  due (): GapOp[] {
    const missing = this.#missing.gap
    return [...this.#owed, ...missing === null ? [] : [gapOp(missing, true)]]
  }

  /** What lies behind `after` was taken out of the log. */
  cut (after: number): void {
    this.tail = Math.min(this.tail, after)
    this.#gaps = within(this.#gaps, 0, after)
    this.#missing.cut(after)
    this.#owed = upTo(after, this.#owed)
    if (this.#lost !== null && after < this.#lost.from) this.#lost = null
  }

  /** The disk has everything up to this index after all: it could not be read before. */
  found (tail: number): void {
    this.tail = Math.max(this.tail, tail)
    this.#missing.found(tail)
  }

  /** A file with these indices was set aside. */
  damaged (from: number, to: number): GapOp {
    return this.#note({ from, to: Math.max(from, to), count: 0 }, false)
  }

  #note (gap: Gap, told: boolean): GapOp {
    this.#gaps = merged([...this.#gaps, rangeOf(gap)])
    return gapOp(gap, told)
  }

  /** Does the log go on behind what was lost, or does that come back? */
  #resolveLost ({ idx, prev }: Place): void {
    const lost = this.#lost
    if (lost === null) return
    if (idx >= lost.from && idx <= lost.to) this.#coming = true
    if (idx <= lost.to) return
    if (!this.#coming && prev < lost.from) this.#owed.push(this.#note(lost, lost.count > 0))
    this.#lost = null
  }
}

const rangeOf = ({ from, to }: Gap): Range => [from, to]

/** What of the gaps lies up to that index. */
const upTo = (after: number, ops: readonly GapOp[]): GapOp[] => ops.filter(({ gap }) => gap.from <= after)
  .map(({ gap, told }) => gapOp({ ...gap, to: Math.min(gap.to, after) }, told))

const gapOp = (gap: Gap, told: boolean): GapOp => ({ type: 'gap', gap, told })
