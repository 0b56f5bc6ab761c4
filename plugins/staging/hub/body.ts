import type { Clock } from '../../../kernel/index.js'
import { RateFloor } from '../transfer/rate-floor.js'
import { HubError } from './errors.js'
import { discard, wireError } from './request.js'
import type { Answer } from './request.js'
import type { HubFile, HubLimits } from './types.js'

/**
 * The bytes of a file from `start` to its end, no more and no fewer. Throws HubError `too_long`, `stalled`
 * (idle, or below the rate floor; only time spent waiting for the server counts) or `unavailable`. The
 * connection goes when the reader stops early.
 */
export async function * readBody (
  answer: Answer, file: HubFile, start: number, clock: Clock, limits: HubLimits,
  signal: AbortSignal | undefined
): AsyncGenerator<Uint8Array, void, undefined> {
  const floor = new RateFloor(limits.floorBytesPerSecond, limits.floorWindowMs)
  const what = `bytes of ${file.path}`
  const parts = (answer.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
  let at = start
  let waitedMs = 0
  try {
    for (;;) {
      const before = clock.mono()
      const next = await parts.next().catch((error: unknown) => { throw wireError(error, what, signal) })
      waitedMs += clock.mono() - before
      if (next.done === true) break
      at += next.value.length
      if (at > file.size) {
        throw new HubError('too_long', `${file.path}: more bytes came than its ${file.size}`)
      }
      floor.add(next.value.length)
      if (floor.below(waitedMs)) {
        throw new HubError('stalled', `${file.path}: fewer than ${limits.floorBytesPerSecond} bytes a ` +
          `second over ${limits.floorWindowMs / 1000} s`)
      }
      yield next.value
    }
  } finally {
    discard(answer)
  }
  if (at < file.size) {
    throw new HubError('unavailable',
      `the connection ended after ${at} of ${file.size} bytes of ${file.path}`)
  }
}
