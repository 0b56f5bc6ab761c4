/** Tries several ways to get an answer, in order, until one of them begins. */
import { EngineError, kernelError, raceAbort, SvcError, type Clock, type EngineChunk } from '../../kernel/index.js'
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
  'upstream_unavailable', 'missing_grant', 'unauthenticated', 'session_changed', 'shutting_down'
]

const reasonOf = (error: unknown): string =>
  error instanceof SvcError || error instanceof EngineError ? error.reason : ''

/**
 * The chunks of the first attempt that begins to answer. The conditions do not apply to the last one, whose
 * error is thrown if none begins. `passed` is called for each that is left.
 */
export async function * firstAnswer (
  attempts: readonly Attempt[], { queue = Infinity, firstMs }: Conditions, clock: Clock, signal: AbortSignal,
  passed: (attempt: Attempt, reason: string) => void
): AsyncGenerator<EngineChunk> {
  for (const [i, attempt] of attempts.entries()) {
    const isLast = i === attempts.length - 1
    const end = new AbortController()
    const either = AbortSignal.any([signal, end.signal])
    const stop = isLast || firstMs === undefined ? () => {} : clock.after(firstMs, () => {
      end.abort(kernelError('timeout', `${attempt.name} sent no token within ${firstMs / 1000} s.`))
    })
    const chunks = attempt.open(either)[Symbol.asyncIterator]()
    /** Chunks before the first token, of which there are few. */
    const held: EngineChunk[] = []
    let began = false
    try {
      for (;;) {
        const { done, value } = await (began ? chunks.next() : raceAbort(chunks.next(), either))
        if (done === true) break
        const { queue: waits, choices = [] } = value.payload as Partial<AnswerChunk>
        if (!isLast && waits !== undefined && waits.place > queue) {
          throw kernelError('overloaded', `${attempt.name} has a queue of ${waits.place}.`)
        }
        if (began) yield value
        else if (choices.length > 0) {
          stop()
          began = true
          const { model } = attempt
          for (const one of [...held, value]) {
            yield model === undefined ? one : { ...one, payload: { ...one.payload, model } }
          }
        } else if (waits === undefined) held.push(value)
        else if (isLast) yield value
      }
      if (!began) throw kernelError('provider_error', `${attempt.name} ended without an answer.`)
      return
    } catch (error) {
      signal.throwIfAborted()
      const reason = reasonOf(error)
      if (began || isLast || !PASSING.includes(reason)) throw error
      passed(attempt, reason)
    } finally {
      stop()
      end.abort()
      chunks.return?.(undefined).catch(() => {})
    }
  }
}
