/** How much was accepted and how much of it is done, for those who wait for it. */
export class Progress {
  #accepted = 0
  #done = 0
  #waiters: { at: number, resolve: () => void }[] = []

  /** True while somebody waits. */
  get awaited (): boolean { return this.#waiters.length > 0 }

  accept (): void { this.#accepted++ }

  /** So many more are done. */
  advance (count: number): void {
    this.#done += count
    const due = this.#waiters.filter(({ at }) => at <= this.#done)
    this.#waiters = this.#waiters.filter(({ at }) => at > this.#done)
    for (const { resolve } of due) resolve()
  }

  /** All of it is done. */
  finish (): void { this.advance(this.#accepted - this.#done) }

  /** Resolves when all that was accepted up to now is done; null when it is. */
  settled (): Promise<void> | null {
    if (this.#done >= this.#accepted) return null
    return new Promise((resolve) => { this.#waiters.push({ at: this.#accepted, resolve }) })
  }
}
