/** Lets what concerns one key happen one after the other, first come first served. */
export class Turns {
  readonly #tails = new Map<string, Promise<unknown>>()

  /** True while something runs or waits for this key. */
  busy (key: string): boolean {
    return this.#tails.has(key)
  }

  /** Runs `work` after everything that was asked for this key before, however that ended. */
  async run<T> (key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve()
    const mine = before.then(work)
    const tail = mine.catch(() => undefined)
    this.#tails.set(key, tail)
    try {
      return await mine
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
    }
  }
}
