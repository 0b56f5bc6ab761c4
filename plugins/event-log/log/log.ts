import { chainAfter, entryAfter, positionOf, samePosition, START } from './entries.js'
import type { Entry, Position, Submission } from './entries.js'

export type LogChange =
  /** An entry was appended; `text` is the entry as JSON. */
  | { readonly type: 'append', readonly entry: Entry, readonly text: string }
  /** The entries after index `after` were removed. With a `base`, the log restarts after that position. */
  | {
    readonly type: 'cut', readonly after: number, readonly entries: readonly Entry[]
    readonly base: Position | null
  }

/** Maximum entries in memory on a node without a store. */
export const RING_ENTRIES = 10_000

/** Maximum JSON bytes for the entries in memory; the oldest are dropped first. */
export const RING_BYTES = 32 * 1024 * 1024

/** Maximum number and bytes of the entries in one message. */
export const PAGE_ENTRIES = 500
export const PAGE_BYTES = 256 * 1024

export interface Page { readonly base: Position, readonly entries: string }

/** The newest entries in memory, in order, and more of them as JSON, which costs the collector little. */
export class EventLog {
  /** Position just before the oldest entry in memory. */
  base: Position = START
  /** Position just before the oldest entry whose JSON is in memory; at or before `base`. */
  oldest: Position = START
  readonly entries: Entry[] = []
  readonly #ids = new Set<string>()
  readonly #listeners = new Set<(change: LogChange) => void>()
  readonly #most: number
  readonly #mostTexts: number
  readonly #mostBytes: number
  #texts: (Position & { readonly text: string })[] = []
  #bytes = 0
  /** The last requested page, and where the log ended at that time; most followers request the same page. */
  #made: { readonly page: Page, readonly last: Position } | null = null

  /** Keeps `most` entries, and JSON up to `mostTexts` entries or `mostBytes`, exceeded by up to an eighth. */
  constructor (most = RING_ENTRIES, mostBytes = RING_BYTES, mostTexts = most) {
    this.#most = most
    this.#mostBytes = mostBytes
    this.#mostTexts = mostTexts
  }

  get last (): Position { return this.entries.at(-1) ?? this.base }

  has (id: string): boolean { return this.#ids.has(id) }

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

  extend (idx: number, sid: string, submission: Submission): void {
    this.#push(entryAfter(this.last, idx, sid, submission))
  }

  #push (entry: Entry): void {
    const text = JSON.stringify(entry)
    this.#texts.push({ ...positionOf(entry), text })
    this.#bytes += text.length
    this.entries.push(entry)
    this.#ids.add(entry.id)
    this.#forgetTexts()
    while (this.entries.length > this.#most || this.entries[0]!.idx <= this.oldest.idx) {
      const dropped = this.entries.shift()!
      this.#ids.delete(dropped.id)
      this.base = positionOf(dropped)
    }
    this.#notify({ type: 'append', entry, text })
  }

  #forgetTexts (): void {
    const texts = this.#texts
    const isTooMuch = (part: number): boolean => texts.length > this.#mostTexts * part ||
      (this.#bytes > this.#mostBytes * part && texts.length > 1)
    if (!isTooMuch(9 / 8)) return
    let left = texts.length
    while (left > this.#mostTexts || (this.#bytes > this.#mostBytes && left > 1)) {
      this.#bytes -= texts[texts.length - left]!.text.length
      left--
    }
    this.oldest = positionOf(texts.splice(0, texts.length - left).at(-1)!)
  }

  /** Removes the entries after index `after` and returns them, oldest first. */
  cut (after: number): Entry[] { return this.#cut(after, null) }

  #cut (after: number, base: Position | null): Entry[] {
    const removed = this.entries.splice(firstAfter(this.entries, after))
    // JSON is in memory for entries before `base` too; those strings stay, even if `after` is smaller.
    const texts = this.#texts.splice(firstAfter(this.#texts, Math.max(after, this.base.idx)))
    this.#bytes -= texts.reduce((sum, { text }) => sum + text.length, 0)
    for (const { id } of removed) this.#ids.delete(id)
    if (removed.length > 0) this.#notify({ type: 'cut', after, entries: removed, base })
    return removed
  }

  /** Empties the log, which restarts after `base`. Returns the removed entries. */
  restart (base: Position): Entry[] {
    const removed = this.#cut(-1, base)
    this.#texts = []
    this.#bytes = 0
    this.base = this.oldest = positionOf(base)
    return removed
  }

  /** The page after a position, up to the size of a message; null for a position outside this log. */
  page (after: Position): Page | null {
    const { last } = this
    const made = this.#made
    const isMade = made !== null && samePosition(made.page.base, after) && samePosition(made.last, last)
    if (isMade) return made.page
    const from = firstAfter(this.#texts, after.idx)
    if (!samePosition(this.#texts[from - 1] ?? this.oldest, after)) return null
    const texts = fitting(this.#texts.slice(from, from + PAGE_ENTRIES), ({ text }) => text.length)
    const entries = `[${texts.map(({ text }) => text).join(',')}]`
    const page = { base: positionOf(after), entries }
    this.#made = { page, last }
    return page
  }

  /** Sample positions of this log from the newest back, at growing distances; the last one is `base`. */
  locator (): Position[] {
    const positions: Position[] = []
    for (let back =
      1; back <= this.entries.length; back *= 2) positions.push(positionOf(this.entries.at(-back)!))
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

/** In a list sorted by index, the position of the first item with an index above `idx`. */
export function firstAfter (list: readonly { readonly idx: number }[], idx: number): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (list[middle]!.idx <= idx) low = middle + 1
    else high = middle
  }
  return low
}

/** The first items that fit into one message, at least one; `bytesOf` returns the JSON size. */
export function fitting<T> (items: Iterable<T>, bytesOf: (item: T) => number): T[] {
  const page: T[] = []
  let bytes = 0
  for (const item of items) {
    bytes += bytesOf(item)
    if (page.length >= PAGE_ENTRIES || (bytes > PAGE_BYTES && page.length > 0)) break
    page.push(item)
  }
  return page
}
