export interface Clock {
  /** Wall time in milliseconds since 1970: for display and storage, never for intervals. */
  now (): number
  /** Monotonic time in milliseconds; only differences mean anything. */
  mono (): number
  /** Calls `fn` once after `ms`; returns a function that cancels it. Never keeps the process alive. */
  after (ms: number, fn: () => void): () => void
  /**
   * Calls `fn` every `ms`, for the first time after 0.5 to 1.5 times `ms`; returns a function that stops the
   * timer. Never keeps the process alive. Timers with the same period fire together, so that they wake an
   * idle process only once.
   */
  every (ms: number, fn: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  mono: () => performance.now(),
  after (ms, fn) {
    const timer = setTimeout(fn, ms)
    timer.unref()
    return () => { clearTimeout(timer) }
  },
  every (ms, fn) {
    const now = performance.now()
    let due = now + 1.5 * ms - (now + ms / 2) % ms
    let timer: NodeJS.Timeout
    const plan = (): void => {
      timer = setTimeout(run, Math.max(1, Math.ceil(due - performance.now()) + 1)).unref()
    }
    const run = (): void => {
      due += ms * Math.max(1, Math.ceil((performance.now() - due) / ms))
      plan()
      fn()
    }
    plan()
    return () => { clearTimeout(timer) }
  }
}

/**
 * Resolves when `listen` calls back, the signal aborts, or `late.ms` have passed on `late.clock`, whichever
 * comes first. `listen` returns a function that unregisters the callback.
 */
export function waitForCallback (
  listen: (fn: () => void) => () => void, signal: AbortSignal,
  late?: { readonly clock: Pick<Clock, 'after'>, readonly ms: number }
): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      stopWaiting()
      stopListening()
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const stopWaiting = late === undefined ? () => {} : late.clock.after(late.ms, finish)
    const stopListening = listen(finish)
    if (signal.aborted) finish()
    else signal.addEventListener('abort', finish)
  })
}

/** Resolves after `ms` on the given clock; rejects with the signal's reason as soon as it aborts. */
export function delay (clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      cancel()
      reject(signal!.reason as Error)
    }
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    })
    if (signal?.aborted === true) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** A signal that also aborts after `ms`, with the error of `late`, unless `stop` is called before. */
export function deadline (
  clock: Pick<Clock, 'after'>, ms: number, late: () => Error, ...signals: AbortSignal[]
): { signal: AbortSignal, stop: () => void } {
  const over = new AbortController()
  const stop = clock.after(ms, () => { over.abort(late()) })
  return { signal: AbortSignal.any([...signals, over.signal]), stop }
}

/** Settles like the promise, but rejects with the signal's reason if the signal aborts first. */
export function raceAbort<T> (promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => { reject(signal.reason as Error) }
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort)
    promise.then(resolve, reject).finally(() => { signal.removeEventListener('abort', onAbort) })
  })
}

/** Like `raceAbort` for a series of waits, which share one abort listener until `end` is called. */
export class AbortableWaits {
  readonly #signal: AbortSignal
  #reject = (_reason: Error): void => {}
  readonly #onAbort = (): void => { this.#reject(this.#signal.reason as Error) }

  constructor (signal: AbortSignal) {
    this.#signal = signal
    signal.addEventListener('abort', this.#onAbort)
  }

  wait<T> (promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject
      if (this.#signal.aborted) this.#onAbort()
      promise.then(resolve, reject)
    })
  }

  end (): void { this.#signal.removeEventListener('abort', this.#onAbort) }
}

export async function * beating<T, B> (
  source: AsyncIterable<T>, clock: Clock, ms: number, beat: B
): AsyncGenerator<T | B> {
  const iterator = source[Symbol.asyncIterator]()
  let askedMs = 0
  let stop = (): void => {}
  let wake = (): void => {}
  // Uses one timer for the whole stream instead of one per item, since most items arrive with no wait.
  const watch = (afterMs: number): void => {
    stop = clock.after(afterMs, () => {
      const left = askedMs + ms - clock.mono()
      watch(left > 0 ? left : ms)
      if (left <= 0) wake()
    })
  }
  watch(ms)
  try {
    for (;;) {
      const next = iterator.next()
      let step: IteratorResult<T> | null = null
      while (step === null) {
        askedMs = clock.mono()
        step = await new Promise<IteratorResult<T> | null>((resolve, reject) => {
          wake = () => { resolve(null) }
          next.then(resolve, reject)
        })
        if (step === null) yield beat
      }
      if (step.done === true) return
      yield step.value
    }
  } finally {
    stop()
    await iterator.return?.()
  }
}
