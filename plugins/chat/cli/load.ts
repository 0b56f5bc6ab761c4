import { isVerbError } from '../../../kernel/cli/index.js'

/** How much is asked for. */
export interface Load {
  requests: number
  /** Requests that are open at once at most. */
  concurrency: number
  /** Stops asking. */
  signal: AbortSignal
}

/** What came of the requests. */
export interface Outcome<S> { samples: S[], failures: string[] }

/**
 * Makes requests, some at once, until all are made or the signal aborts; those that are open then are not
 * counted. `done` is told after each how many there were. Throws what is no VerbError.
 */
export async function applyLoad<S> (
  { requests, concurrency, signal }: Load, one: (index: number) => Promise<S>, done: (count: number) => void
): Promise<Outcome<S>> {
  const outcome: Outcome<S> = { samples: [], failures: [] }
  let next = 0
  const work = async (): Promise<void> => {
    while (next < requests && !signal.aborted) {
      try {
        outcome.samples.push(await one(next++))
      } catch (error) {
        if (signal.aborted) return
        if (!isVerbError(error)) throw error
        outcome.failures.push(error.message)
      }
      done(outcome.samples.length + outcome.failures.length)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, requests) }, work))
  return outcome
}

/** The least value that at least `share` (0 to 1) of the values do not exceed; null for no values. Pure. */
export function percentile (values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}

/** The middle and the slow end of a time or of another value of which less is better. */
export interface Spread { p50: number | null, p99: number | null }

/** The spread of those values that are there. */
export function spreadOf (values: readonly (number | null)[]): Spread {
  const known = values.filter((value) => value !== null)
  return { p50: percentile(known, 0.5), p99: percentile(known, 0.99) }
}

/** Equal messages with how often each came, the most frequent first. */
export function countFailures (messages: readonly string[]): { message: string, count: number }[] {
  const counts = new Map<string, number>()
  for (const message of messages) counts.set(message, (counts.get(message) ?? 0) + 1)
  return [...counts].map(([message, count]) => ({ message, count })).sort((a, b) => b.count - a.count)
}
