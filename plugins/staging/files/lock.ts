/** Critical sections by name: those of one name run one after another, in the order they were asked for. */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<unknown>>()

  /** True while a section of that name runs or waits. */
  busy (key: string): boolean { return this.#tails.has(key) }

  /** Runs `section` when those of the same name before it are over, whether they failed or not. */
  async run<T> (key: string, section: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve()
    const mine = before.then(section, section)
    this.#tails.set(key, mine)
    try {
      return await mine
    } finally {
      if (this.#tails.get(key) === mine) this.#tails.delete(key)
    }
  }
}
