/** Milliseconds without changes after which `next` resolves, so that its caller can send a keep-alive. */
const QUIET_MS = 10_000

export interface Changes {
  notify (): void
  /** Calls `fn` after each change, once for a burst of them; returns a function that unregisters it. */
  listen (fn: () => void): () => void
  /** Resolves after the next change, after QUIET_MS, or when the signal aborts. */
  next (signal: AbortSignal): Promise<void>
}

export function createChanges (): Changes {
  const waiting = new Set<() => void>()
  const listeners = new Set<() => void>()
  let queued = false
  const tell = (): void => {
    queued = false
    for (const fn of [...listeners]) fn()
  }
  return {
    notify () {
      for (const wake of [...waiting]) wake()
      if (queued || listeners.size === 0) return
      queued = true
      queueMicrotask(tell)
    },
    listen (fn) {
      listeners.add(fn)
      return () => { listeners.delete(fn) }
    },
    next: (signal) => new Promise((resolve) => {
      const done = (): void => {
        waiting.delete(done)
        signal.removeEventListener('abort', done)
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(done, QUIET_MS)
      waiting.add(done)
      signal.addEventListener('abort', done)
      if (signal.aborted) done()
    })
  }
}
