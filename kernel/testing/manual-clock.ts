import type { Clock } from '../api/clock.js'

/** A clock for tests whose time moves only by `advance`. */
export interface ManualClock extends Clock {
  /** Advances time and runs due timers in order; lets pending promises settle in between. */
  advance (ms: number): Promise<void>
}

interface Due { at: number, fn: () => void, everyMs: number | null }

/** `startMs` is the initial wall time; monotonic time starts at 0. */
export function manualClock (startMs = Date.UTC(2026, 0, 1)): ManualClock {
  let now = 0
  const due = new Set<Due>()
  const add = (ms: number, fn: () => void, everyMs: number | null): (() => void) => {
    const entry = { at: now + ms, fn, everyMs }
    due.add(entry)
    return () => { due.delete(entry) }
  }
  const next = (until: number): Due | undefined =>
    [...due].filter((d) => d.at <= until).sort((a, b) => a.at - b.at)[0]
  return {
    now: () => startMs + now,
    mono: () => now,
    after: (ms, fn) => add(ms, fn, null),
    every: (ms, fn) => add(ms, fn, ms),
    async advance (ms) {
      const until = now + ms
      for (let entry = next(until); entry !== undefined; entry = next(until)) {
        now = entry.at
        if (entry.everyMs === null) due.delete(entry)
        else entry.at += entry.everyMs
        entry.fn()
        await new Promise((resolve) => setImmediate(resolve))
      }
      now = until
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}
