/** The prefix cache: KV caches of ended sequences, for prompts that begin with the same tokens. */

/** A kept KV cache, of the tokens `ids`. */
export interface Kept<B> { ids: readonly number[], batch: B, bytes: number }

const MAX_ENTRIES = 64

/** Number of first tokens that two sequences share. */
export function commonPrefix (a: readonly number[], b: readonly number[]): number {
  const most = Math.min(a.length, b.length)
  let length = 0
  while (length < most && a[length] === b[length]) length++
  return length
}

/** Kept states, the least recently used first to go. */
export class Prefixes<B> {
  /** From the least to the most recently used. */
  private entries: Array<Kept<B>> = []
  private readonly budget: number
  private total = 0

  /** `budget` in bytes. */
  constructor (budget: number) { this.budget = budget }

  get bytes (): number { return this.total }
  get count (): number { return this.entries.length }

  /** True where a state of that size can be kept at all. */
  takes (bytes: number): boolean { return bytes <= this.budget }

  /** Keeps a state. Those that it continues are dropped: it serves whatever they would. */
  keep (kept: Kept<B>): void {
    if (!this.takes(kept.bytes)) return
    const covered = (entry: Kept<B>): boolean => commonPrefix(entry.ids, kept.ids) === entry.ids.length
    this.replace([...this.entries.filter((entry) => !covered(entry)), kept])
    while (this.total > this.budget || this.entries.length > MAX_ENTRIES) this.dropOldest()
  }

  /** The state with most usable tokens, as `usable` counts them; 0 is none. */
  find (usable: (entry: Kept<B>) => number): { batch: B, row: number, length: number } | undefined {
    let best: { batch: B, row: number, length: number } | undefined
    for (const entry of this.entries) {
      const length = usable(entry)
      if (length > (best?.length ?? 0)) best = { batch: entry.batch, row: 0, length }
    }
    return best
  }

  /** Marks the entry with that state as used just now, if there is one. */
  touch (batch: B): void {
    const used = this.entries.filter((entry) => entry.batch === batch)
    this.entries = [...this.entries.filter((entry) => entry.batch !== batch), ...used]
  }

  /** Drops the least recently used entry; false when there is none. */
  dropOldest (): boolean {
    if (this.entries.length === 0) return false
    this.replace(this.entries.slice(1))
    return true
  }

  private replace (entries: Array<Kept<B>>): void {
    this.entries = entries
    this.total = entries.reduce((sum, { bytes }) => sum + bytes, 0)
  }
}
