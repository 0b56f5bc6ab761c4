import type { Counter } from 'prom-client'

/**
 * Feeds counters from totals that somebody else keeps. A total that falls belongs to something that began
 * anew: all of it counts.
 */
export class Rises {
  readonly #last = new Map<string, number>()

  /** `key` names the source of the total for as long as it exists. */
  follow<L extends string> (
    counter: Counter<L>, labels: Record<L, string>, key: string, total: number
  ): void {
    const last = this.#last.get(key) ?? 0
    this.#last.set(key, total)
    const risen = total < last ? total : total - last
    if (risen > 0) counter.inc(labels, risen)
  }

  /** Forgets the sources that are gone. */
  keep (there: (key: string) => boolean): void {
    for (const key of this.#last.keys()) if (!there(key)) this.#last.delete(key)
  }
}
