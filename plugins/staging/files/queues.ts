import { raceAbort } from '../../../kernel/index.js'

type Key = string | number

/** Runs work of one key in order, one at a time. An error goes to its own caller; the next work runs. */
export class KeyedLock {
  /** Of each key, what resolves when everything asked so far has ended. */
  readonly #tails = new Map<Key, Promise<void>>()

  busy (key: Key): boolean { return this.#tails.has(key) }

  /**
   * Runs `work` when everything asked before under the key has ended. An abort takes it out while it waits
   * and rejects with the signal's reason; once it runs, the signal is its own business.
   */
  async run<T> (key: Key, work: () => T | Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted()
    const before = this.#tails.get(key) ?? Promise.resolve()
    const result = (signal === undefined ? before : raceAbort(before, signal)).then(async () => {
      signal?.throwIfAborted()
      return await work()
    })
    const tail = Promise.allSettled([before, result]).then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
    })
    this.#tails.set(key, tail)
    return await result
  }
}

/** Runs `work` on all items, at most `limit` at once. The first failure begins no more and is thrown. */
export async function eachOf<T> (
  items: readonly T[], limit: number, work: (item: T) => Promise<void>
): Promise<void> {
  let next = 0
  const failures: unknown[] = []
  const worker = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      await work(items[next++]!).catch((error: unknown) => { failures.push(error) })
    }
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker))
  if (failures.length > 0) throw failures[0]
}
