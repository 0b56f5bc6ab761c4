/** Time as plugins and algorithms see it; tests use a manual one (kernel/testing). */
export interface Clock {
  /** Wall time, milliseconds since 1970. Only for showing and storing, never for intervals. */
  now (): number
  /** Monotonic milliseconds; only differences mean anything. */
  mono (): number
  /** Calls `fn` once after `ms`; returns what cancels it. Never keeps the process alive. */
  after (ms: number, fn: () => void): () => void
  /** Calls `fn` every `ms`; returns what stops it. Never keeps the process alive. */
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
    const timer = setInterval(fn, ms)
    timer.unref()
    return () => { clearInterval(timer) }
  }
}

/** Resolves after `ms` by that clock. */
export function delay (clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => { clock.after(ms, resolve) })
}
