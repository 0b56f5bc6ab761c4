import { raceAbort } from '../../../kernel/index.js'

type Key = string | number

/** Runs tasks with the same key in order, one at a time. A failed task does not stop the next one. */
export class KeyedLock {
  readonly #tails = new Map<Key, Promise<void>>()

  busy (key: Key): boolean { return this.#tails.has(key) }

  /** Runs `work` after earlier tasks with this key. An abort rejects a waiting task, not a running one. */
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

/** Runs at most `limit` items in parallel. After a failure starts no more items; throws the first error. */
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
