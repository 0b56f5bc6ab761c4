import { chainAfter, entryAfter, samePosition, START } from './entries.js'
import { RING_BYTES, RING_ENTRIES } from './limits.js'
import { Texts } from './texts.js'
import type { Entry, Position, Submission } from './entries.js'
import type { Page } from './texts.js'

/** What happened to the log. */
export type LogChange =
  /** `text`: the entry as JSON. */
  | { readonly type: 'append', readonly entry: Entry, readonly text: string }
  /** The entries after index `after` were removed. With a `base` the log begins again after that. */
  | {
    readonly type: 'cut', readonly after: number, readonly entries: readonly Entry[]
    readonly base: Position | null
  }

/** The newest entries in memory, in order. Listeners see every change. */
export interface EventLog {
  /** Position of the newest entry. */
  readonly last: Position
  /** Just before the oldest entry kept. */
  readonly base: Position
  readonly entries: readonly Entry[]
  /** True when an event with this id is kept. */
  has (id: string): boolean
  /** True when that position is in memory, or is the base. */
  holds (position: Position): boolean
  /** Adds an entry if it continues the log; false otherwise. */
  append (entry: Entry): boolean
  /** Puts a new event at the end. */
  extend (idx: number, sid: string, submission: Submission): Entry
  /** Removes the entries after index `after` and returns them, oldest first. */
  cut (after: number): Entry[]
  /** Empties the log, which begins again after `base`. Returns the entries that were in it. */
  restart (base: Position): Entry[]
  /** Position just before the oldest entry that can still be sent; at or before `base`. */
  readonly oldest: Position
  /** The page that follows a position; null when that is not a position of this log from `oldest` on. */
  page (after: Position): Page | null
  /** Positions from the newest back, ever further apart, the last one `base`. */
  locator (): Position[]
  onChange (fn: (change: LogChange) => void): () => void
}

/**
 * An empty log. It keeps at most `most` entries and `mostBytes` of their JSON, and the JSON of `mostTexts`
 * entries to be sent.
 */
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
    this.#notify({ type: 'append', entry, text })
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
    // Texts go back further than entries: those that are older stay, whatever `after` is.
    this.#texts.cut(Math.max(after, this.base.idx))
    for (const size of this.#sizes.splice(from)) this.#bytes -= size
    for (const { id } of removed) this.#ids.delete(id)
    if (removed.length > 0) this.#notify({ type: 'cut', after, entries: removed, base })
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

  #notify (change: LogChange): void {
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
