import type { Clock } from '../../../kernel/index.js'

const FIRST_MS = 500
const LAST_MS = 30_000

/** Milliseconds before try `attempt` (1 is the first repetition): doubling, half of it by chance. */
export function backoffMs (attempt: number, random: () => number): number {
  const full = Math.min(LAST_MS, FIRST_MS * 2 ** attempt)
  return Math.max(FIRST_MS, full / 2 + random() * full / 2)
}

/** Waits by the clock; rejects with the signal's reason when it is aborted first. */
export function pause (clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) { reject(signal.reason as Error); return }
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', stop)
      resolve()
    })
    const stop = (): void => {
      cancel()
      reject(signal?.reason as Error)
    }
    signal?.addEventListener('abort', stop, { once: true })
  })
}
