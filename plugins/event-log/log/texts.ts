import { place, samePosition, START } from './entries.js'
import type { Position } from './entries.js'

/** Most entries, and most bytes of them, in one message. */
export const PAGE_ENTRIES = 500
export const PAGE_BYTES = 256 * 1024

/** Entries as they are sent. */
export interface Page {
  /** Position just before the first of them. */
  readonly base: Position
  /** A JSON list. */
  readonly entries: string
  /** Position of the last of them, or `base` when there is none. */
  readonly end: Position
}

/**
 * The JSON of the newest entries, for followers. More of them than are kept as objects: a string costs the
 * garbage collector next to nothing, and is sent as it is.
 */
export class Texts {
  /** Position just before the oldest. */
  base: Position = START
  readonly #most: number
  readonly #mostBytes: number
  #texts: string[] = []
  #idxs: number[] = []
  #chains: string[] = []
  #bytes = 0
  /** Place of the oldest in the arrays. Those before it are empty, and removed many at a time. */
  #from = 0
  /** The last page that was made: as a rule all followers are sent the same one. */
  #made: Page | null = null

  constructor (most: number, mostBytes: number) {
    this.#most = most
    this.#mostBytes = mostBytes
  }

  push ({ idx, chain }: Position, text: string): void {
    // A page that ends before the newest entry stays valid.
    if (this.#made?.end.idx === this.#at(this.#texts.length - 1).idx) this.#made = null
    this.#texts.push(text)
    this.#idxs.push(idx)
    this.#chains.push(chain)
    this.#bytes += text.length
    while (this.#size > this.#most || (this.#bytes > this.#mostBytes && this.#size > 1)) this.#dropOldest()
  }

  /** Removes what lies after index `after`. */
  cut (after: number): void {
    const until = Math.max(this.#from, this.#firstAfter(after))
    for (const text of this.#texts.splice(until)) this.#bytes -= text.length
    this.#idxs.splice(until)
    this.#chains.splice(until)
    this.#made = null
  }

  /** Empties it; the next text follows `base`. */
  restart (base: Position): void {
    this.cut(-1)
    this.base = place(base)
  }

  /** The page that follows a position, as large as a message may be; null for an unknown position. */
  page (after: Position): Page | null {
    if (this.#made !== null && samePosition(this.#made.base, after)) return this.#made
    const from = this.#firstAfter(after.idx)
    if (!samePosition(this.#at(from - 1), after)) return null
    let until = from
    for (let bytes = 0; until < this.#texts.length && until - from < PAGE_ENTRIES; until++) {
      bytes += this.#texts[until]!.length
      if (bytes > PAGE_BYTES && until > from) break
    }
    const entries = `[${this.#texts.slice(from, until).join(',')}]`
    this.#made = { base: place(after), entries, end: this.#at(until - 1) }
    return this.#made
  }

  get #size (): number { return this.#texts.length - this.#from }

  #at (place: number): Position {
    return place < this.#from ? this.base : { idx: this.#idxs[place]!, chain: this.#chains[place]! }
  }

  #firstAfter (idx: number): number {
    let low = this.#from
    let high = this.#idxs.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#idxs[middle]! <= idx) low = middle + 1
      else high = middle
    }
    return low
  }

  #dropOldest (): void {
    this.base = this.#at(this.#from)
    this.#bytes -= this.#texts[this.#from]!.length
    this.#texts[this.#from] = ''
    this.#from++
    if (this.#from < 1_000 || this.#from < this.#size / 4) return
    this.#texts.splice(0, this.#from)
    this.#idxs.splice(0, this.#from)
    this.#chains.splice(0, this.#from)
    this.#from = 0
  }
}
