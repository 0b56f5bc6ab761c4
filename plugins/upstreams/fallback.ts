/** Tries several ways to get an answer, in order, until one of them begins. */
import {
  EngineError, kernelError, raceAbort, SvcError, type Clock, type EngineChunk
} from '../../kernel/index.js'
import type { AnswerChunk } from '../runners/language/chunks.js'

/** One way to get an answer; `model` is sent with its first chunk if another model answers. */
export interface Attempt {
  name: string
  model?: string
  open (signal: AbortSignal): AsyncIterable<EngineChunk>
}

/** When to leave an attempt before its first token: at a place behind `queue`, or after `firstMs`. */
export interface Conditions { queue?: number | undefined, firstMs?: number | undefined }

/** Reasons for which another attempt may succeed. */
const PASSING: readonly string[] = [
  'no_instance', 'instance_lost', 'overloaded', 'not_ready', 'provider_error', 'timeout', 'unreachable',
  'upstream_unavailable', 'missing_grant', 'unauthenticated', 'shutting_down'
]

/**
 * Yields the first answer that begins. The conditions do not apply to the last attempt, whose error is thrown
 * if none begins. `passed` is called for each abandoned attempt.
 */
export async function * firstAnswer (
  attempts: readonly Attempt[], { queue = Infinity, firstMs }: Conditions, clock: Clock, signal: AbortSignal,
  passed: (attempt: Attempt, reason: string) => void
): AsyncGenerator<EngineChunk> {
  for (const attempt of attempts) {
    const { name, model } = attempt
    const isLast = attempt === attempts.at(-1)
    const end = new AbortController()
    const either = AbortSignal.any([signal, end.signal])
    const stop = isLast || firstMs === undefined ? () => {} : clock.after(firstMs, () => {
      end.abort(kernelError('timeout', `${name} sent no token within ${firstMs / 1000} s.`))
    })
    const chunks = attempt.open(either)[Symbol.asyncIterator]()
    /** Chunks before the first token, of which there are few. */
    let held: EngineChunk[] = []
    let began = false
    try {
      for (;;) {
        const { done, value } = await (began ? chunks.next() : raceAbort(chunks.next(), either))
        if (done === true && !began) throw kernelError('provider_error', `${name} ended without an answer.`)
        if (done === true) return
        const { queue: waits, choices = [] } = value.payload as Partial<AnswerChunk>
        if (waits !== undefined && waits.place > queue && !isLast) {
          throw kernelError('overloaded', `${name} has a queue of ${waits.place}.`)
        }
        if (choices.length === 0 && !began) {
          if (waits === undefined) held.push(value)
          else if (isLast) yield value
          continue
        }
        stop()
        const isFirst = !began && model !== undefined
        began = true
        yield * held
        held = []
        yield isFirst ? { ...value, payload: { ...value.payload, model } } : value
      }
    } catch (error) {
      signal.throwIfAborted()
      const reason = error instanceof SvcError || error instanceof EngineError ? error.reason : ''
      if (began || isLast || !PASSING.includes(reason)) throw error
      passed(attempt, reason)
    } finally {
      stop()
      end.abort()
      chunks.return?.(undefined).catch(() => {})
    }
  }
  throw kernelError('not_ready', 'No server is ready to answer.')
}
