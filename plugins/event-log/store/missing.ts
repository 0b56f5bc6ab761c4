/** Indices from `from` to `to`, both inclusive, of which `count` were events. */
export interface Gap { readonly from: number, readonly to: number, readonly count: number }

/**
 * Events in a row that were not written. Between two of them there may be indices that no event has: a new
 * master leaves some out. So the count survives a cut at any place, each such hole is remembered.
 */
export class Missing {
  #from = 0
  #to = -1
  #holes: { from: number, to: number }[] = []

  get gap (): Gap | null {
    if (this.#to < this.#from) return null
    const unused = this.#holes.reduce((sum, { from, to }) => sum + to - from + 1, 0)
    return { from: this.#from, to: this.#to, count: this.#to - this.#from + 1 - unused }
  }

  /** The event at `idx` was not written; `prev` is the index of the one before it. */
  add (prev: number, idx: number): void {
    if (this.#to < this.#from) {
      this.#from = idx
    } else if (idx > this.#to + 1) {
      // A log that was taken up behind this one's end: what lies between is missing here as well.
      if (prev <= this.#to) this.#holes.push({ from: this.#to + 1, to: idx - 1 })
      else if (prev + 1 < idx) this.#holes.push({ from: prev + 1, to: idx - 1 })
    }
    this.#to = Math.max(this.#to, idx)
  }

  /** What lies behind `after` was taken out of the log. */
  cut (after: number): void {
    if (after >= this.#to) return
    this.#holes = this.#holes.filter(({ from }) => from <= after)
      .map(({ from, to }) => ({ from, to: Math.min(to, after) }))
    this.#to = after
    const last = this.#holes.at(-1)
    if (last?.to === after) {
      this.#holes.pop()
      this.#to = last.from - 1
    }
    if (this.#to < this.#from) this.clear()
  }

  /** Nothing is missing up to that index. */
  found (upTo: number): void {
    if (upTo >= this.#to) this.clear()
    if (upTo < this.#from) return
    this.#holes = this.#holes.filter(({ to }) => to > upTo)
      .map(({ from, to }) => ({ from: Math.max(from, upTo + 1), to }))
    this.#from = upTo + 1
    const first = this.#holes[0]
    if (first?.from === this.#from) {
      this.#holes.shift()
      this.#from = first.to + 1
    }
  }

  /** What is missing goes on with what is missing there. */
  join (later: Missing): void {
    const gap = later.gap
    if (gap === null) return
    if (this.#to < this.#from) this.#from = gap.from
    else if (gap.from > this.#to + 1) this.#holes.push({ from: this.#to + 1, to: gap.from - 1 })
    this.#to = gap.to
    this.#holes.push(...later.#holes)
  }

  clear (): void {
    this.#from = 0
    this.#to = -1
    this.#holes = []
  }
}
