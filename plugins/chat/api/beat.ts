import type { Clock } from '../../../kernel/index.js'

/** Silence after which a stream shows that it is alive, ms. */
export const BEAT_MS = 10_000

/** What the source gives, and null after each `ms` of silence. Pulls one thing at a time. */
export async function * beating<T> (
  source: AsyncIterable<T>, clock: Clock, ms: number
): AsyncGenerator<T | null> {
  const iterator = source[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = iterator.next()
      next.catch(() => {})
      let step = await orSilence(next, clock, ms)
      for (; step === null; step = await orSilence(next, clock, ms)) yield null
      if (step.done === true) return
      yield step.value
    }
  } finally {
    await iterator.return?.()
  }
}

async function orSilence<T> (next: Promise<T>, clock: Clock, ms: number): Promise<T | null> {
  let stop = (): void => {}
  const silence = new Promise<null>((resolve) => { stop = clock.after(ms, () => { resolve(null) }) })
  return await Promise.race([next, silence]).finally(stop)
}
