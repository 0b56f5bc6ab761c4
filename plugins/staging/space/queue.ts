import { unlessAborted } from '../abortable.js'

/** Runs one thing at a time, in the order asked. What one throws goes to its caller; the next still runs. */
export class SerialQueue {
  readonly #entries = new Set<{ label: string }>()
  #tail: Promise<void> = Promise.resolve()

  /** How many run or wait. */
  get size (): number { return this.#entries.size }

  /** What runs (first) and waits, in order. */
  get labels (): string[] { return [...this.#entries].map(({ label }) => label) }

  /**
   * Runs `fn` when everything asked before has ended. An abort takes it out while it waits and rejects with
   * the signal's reason; once it runs, the signal is its own business.
   */
  async run<T> (label: string, fn: () => T | Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    const entry = { label }
    this.#entries.add(entry)
    const before = this.#tail
    let over = (): void => {}
    const done = new Promise<void>((resolve) => { over = resolve })
    this.#tail = before.then(async () => { await done })
    try {
      await unlessAborted(before, signal)
      signal?.throwIfAborted()
      return await fn()
    } finally {
      this.#entries.delete(entry)
      over()
    }
  }
}
