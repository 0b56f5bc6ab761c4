import { chainAfter, entryAfter, place, samePosition, START } from './entries.js'
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

/** Entries that are kept in memory where nothing can be stored. */
export const RING_ENTRIES = 10_000

/** Bytes of JSON that entries in memory may have together; the oldest go first. */
export const RING_BYTES = 32 * 1024 * 1024

/**
 * The newest entries in memory, in order, and the JSON of more of them, to be sent. Listeners see every
 * change.
 */
export class EventLog {
  /** Just before the oldest entry kept. */
  base: Position = START
  readonly entries: Entry[] = []
  readonly #ids = new Set<string>()
  readonly #listeners = new Set<(change: LogChange) => void>()
  readonly #most: number
  readonly #texts: Texts

  /** Keeps `most` entries, and the JSON of `mostTexts` of `mostBytes` together, which are as many or more. */
  constructor (most = RING_ENTRIES, mostBytes = RING_BYTES, mostTexts = most) {
    this.#texts = new Texts(mostTexts, mostBytes)
    this.#most = most
  }

  /** Position just before the oldest entry that can still be sent; at or before `base`. */
  get oldest (): Position { return this.#texts.base }

  /** Position of the newest entry. */
  get last (): Position { return this.entries.at(-1) ?? this.base }

  /** True when an event with this id is kept. */
  has (id: string): boolean { return this.#ids.has(id) }

  /** True when that position is in memory, or is the base. */
  holds (position: Position): boolean {
    if (samePosition(position, this.base)) return true
    const entry = this.entries[firstAfter(this.entries, position.idx - 1)]
    return entry !== undefined && samePosition(entry, position)
  }

  /** Adds an entry if it continues the log; false otherwise. */
  append (entry: Entry): boolean {
    const { last } = this
    if (entry.prev !== last.idx || entry.idx <= last.idx) return false
    if (entry.chain !== chainAfter(last, entry)) return false
    this.#push(entry)
    return true
  }

  /** Puts a new event at the end. */
  extend (idx: number, sid: string, submission: Submission): Entry {
    const entry = entryAfter(this.last, idx, sid, submission)
    this.#push(entry)
    return entry
  }

  #push (entry: Entry): void {
    const text = JSON.stringify(entry)
    this.#texts.push(entry, text)
    this.entries.push(entry)
    this.#ids.add(entry.id)
    while (this.entries.length > this.#most || this.entries[0]!.idx <= this.oldest.idx) {
      const dropped = this.entries.shift()!
      this.#ids.delete(dropped.id)
      this.base = place(dropped)
    }
    this.#notify({ type: 'append', entry, text })
  }

  /** Removes the entries after index `after` and returns them, oldest first. */
  cut (after: number): Entry[] { return this.#cut(after, null) }

  #cut (after: number, base: Position | null): Entry[] {
    const from = firstAfter(this.entries, after)
    const removed = this.entries.splice(from)
    // Texts go back further than entries: those that are older stay, whatever `after` is.
    this.#texts.cut(Math.max(after, this.base.idx))
    for (const { id } of removed) this.#ids.delete(id)
    if (removed.length > 0) this.#notify({ type: 'cut', after, entries: removed, base })
    return removed
  }

  /** Empties the log, which begins again after `base`. Returns the entries that were in it. */
  restart (base: Position): Entry[] {
    const removed = this.#cut(-1, base)
    this.base = place(base)
    this.#texts.restart(this.base)
    return removed
  }

  /** The page that follows a position; null when that is not a position of this log from `oldest` on. */
  page (after: Position): Page | null { return this.#texts.page(after) }

  /** Positions from the newest back, ever further apart, the last one `base`. */
  locator (): Position[] {
    const positions: Position[] = []
    for (let back = 1; back <= this.entries.length; back *= 2) positions.push(place(this.entries.at(-back)!))
    return [...positions, this.base]
  }

  /** Calls `fn` after each change, until the function returned is called. */
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
