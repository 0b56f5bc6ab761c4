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

/** Waits for a promise; rejects with the signal's reason when that comes first. The promise goes on. */
export async function unlessAborted<T> (promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await promise
  signal.throwIfAborted()
  let onAbort = (): void => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => { reject(signal.reason as Error) }
    signal.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
