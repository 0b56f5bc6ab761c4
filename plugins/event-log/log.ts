import { chainAfter, entryAfter, samePosition, START } from './entries.js'
import { RING_BYTES, RING_ENTRIES } from './limits.js'
import { Texts } from './texts.js'
import type { Entry, Position, Submission } from './entries.js'
import type { Page } from './texts.js'

/** What happened to the log. */
export type LogChange =
  /** `text`: the entry as JSON. */
  | { readonly type: 'append', readonly entry: Entry, readonly text: string }
  /** The tail behind `after` was taken away. With a `base` the log begins anew behind that. */
  | {
    readonly type: 'cut', readonly after: number, readonly entries: readonly Entry[]
    readonly base: Position | null
  }

/** The newest entries, in order. Every change goes through here, so that readers can follow. */
export interface EventLog {
  /** Where the log ends. */
  readonly last: Position
  /** Just before the oldest entry kept. */
  readonly base: Position
  readonly entries: readonly Entry[]
  /** True when an event with this id is kept. */
  has (id: string): boolean
  /** True when this log has passed through that position and still knows it. */
  holds (position: Position): boolean
  /** Adds an entry if it continues the log; false otherwise. */
  append (entry: Entry): boolean
  /** Puts a new event at the end. */
  extend (idx: number, sid: string, submission: Submission): Entry
  /** Takes away everything behind index `after` and returns it, oldest first. */
  cut (after: number): Entry[]
  /** Empties the log and begins anew behind `base`. Returns what was in it. */
  restart (base: Position): Entry[]
  /** Just before the oldest entry that can still be sent; not behind `base`. */
  readonly oldest: Position
  /** What follows that position, at most a page; null when it is not one of this log from `oldest` on. */
  page (after: Position): Page | null
  /** Positions from the newest back, ever further apart, the last one `base`. */
  locator (): Position[]
  onChange (fn: (change: LogChange) => void): () => void
}

/** An empty log. It keeps `most` entries and `mostBytes` of their JSON; to be sent, `mostTexts`. */
export function createEventLog (most = RING_ENTRIES, mostBytes = RING_BYTES, mostTexts = most): EventLog {
  return new Ring(most, mostBytes, mostTexts)
}

class Ring implements EventLog {
  base: Position = START
  readonly entries: Entry[] = []
  readonly #sizes: number[] = []
  readonly #ids = new Set<string>()
  readonly #listeners = new Set<(change: LogChange) => void>()
  readonly #most: number
  readonly #mostBytes: number
  readonly #texts: Texts
  #bytes = 0

  constructor (most: number, mostBytes: number, mostTexts: number) {
    this.#texts = new Texts(mostTexts, mostBytes)
    this.#most = most
    this.#mostBytes = mostBytes
  }

  get oldest (): Position { return this.#texts.base }

  get last (): Position { return this.entries.at(-1) ?? this.base }

  has (id: string): boolean { return this.#ids.has(id) }

  holds (position: Position): boolean {
    if (samePosition(position, this.base)) return true
    const entry = this.entries[firstAfter(this.entries, position.idx - 1)]
    return entry !== undefined && samePosition(entry, position)
  }

  append (entry: Entry): boolean {
    const { last } = this
    if (entry.prev !== last.idx || entry.idx <= last.idx) return false
    if (entry.chain !== chainAfter(last, entry)) return false
    this.#push(entry)
    return true
  }

  extend (idx: number, sid: string, submission: Submission): Entry {
    const entry = entryAfter(this.last, idx, sid, submission)
    this.#push(entry)
    return entry
  }

  #push (entry: Entry): void {
    const text = JSON.stringify(entry)
    const size = Buffer.byteLength(text)
    this.#texts.push(entry, text)
    this.entries.push(entry)
    this.#sizes.push(size)
    this.#ids.add(entry.id)
    this.#bytes += size
    while (this.entries.length > this.#most || (this.#bytes > this.#mostBytes && this.entries.length > 1)) {
      this.#dropOldest()
    }
    this.#tell({ type: 'append', entry, text })
  }

  #dropOldest (): void {
    const { idx, chain, id } = this.entries.shift()!
    this.#bytes -= this.#sizes.shift()!
    this.#ids.delete(id)
    this.base = { idx, chain }
  }

  cut (after: number): Entry[] { return this.#cut(after, null) }

  #cut (after: number, base: Position | null): Entry[] {
    const from = firstAfter(this.entries, after)
    const removed = this.entries.splice(from)
    // What is older than these entries stays in the log, whatever `after` is.
    this.#texts.cut(Math.max(after, this.base.idx))
    for (const size of this.#sizes.splice(from)) this.#bytes -= size
    for (const { id } of removed) this.#ids.delete(id)
    if (removed.length > 0) this.#tell({ type: 'cut', after, entries: removed, base })
    return removed
  }

  restart (base: Position): Entry[] {
    const removed = this.#cut(-1, base)
    this.base = { idx: base.idx, chain: base.chain }
    this.#texts.restart(this.base)
    return removed
  }

  page (after: Position): Page | null { return this.#texts.page(after) }

  locator (): Position[] {
    const positions: Position[] = []
    for (let back = 1; back <= this.entries.length; back *= 2) {
      const { idx, chain } = this.entries[this.entries.length - back]!
      positions.push({ idx, chain })
    }
    return [...positions, this.base]
  }

  onChange (fn: (change: LogChange) => void): () => void {
    this.#listeners.add(fn)
    return () => { this.#listeners.delete(fn) }
  }

  #tell (change: LogChange): void {
    for (const fn of [...this.#listeners]) fn(change)
  }
}

/** Place of the first entry with an index above `idx`. */
export function firstAfter (entries: readonly Entry[], idx: number): number {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (entries[middle]!.idx <= idx) low = middle + 1
    else high = middle
  }
  return low
}
