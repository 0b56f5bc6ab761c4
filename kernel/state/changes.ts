import { systemClock, waitForCallback } from '../api/clock.js'

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
  const listeners = new Set<() => void>()
  let queued = false
  const tell = (): void => {
    queued = false
    for (const fn of [...listeners]) fn()
  }
  const listen = (fn: () => void): (() => void) => {
    listeners.add(fn)
    return () => { listeners.delete(fn) }
  }
  return {
    notify () {
      if (queued || listeners.size === 0) return
      queued = true
      queueMicrotask(tell)
    },
    listen,
    next: async (signal) => { await waitForCallback(listen, signal, { clock: systemClock, ms: QUIET_MS }) }
  }
}
