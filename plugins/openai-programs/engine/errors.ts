/** Converts errors of programs, which differ in form and words, to svc's errors. Pure. */
import { EngineError } from '../../../kernel/api/engine.js'
import { fieldsOf, numberOf, textOf } from '../../runners/language/json.js'
import { contextExceeded } from '../../runners/language/refusals.js'
import { BrokenAnswer, withoutPaths } from '../../runners/openai/errors.js'

const MAX_CHARS = 1_000
const CONTEXT = /maximum context length (?:is|of) (\d+)/i
const PROMPT = /(?:contains(?: at least)?|requested a total of|has) (\d+)(?: input)? tokens/i
const REFUSED = [400, 413, 422]
const INTERNAL = 500

/**
 * The error for `{error: {message}}`, `{error: 'text'}` or FastAPI's `{detail}`. One in a stream has no
 * `status`; unless it names a fault of the request, the program may have failed as a whole.
 */
export function programError (
  body: unknown, { modelId, name }: { modelId: string, name: string }, status?: number
): Error {
  const { error, detail } = fieldsOf(body)
  const { message, code } = fieldsOf(error)
  const said = [message, error, detail, detail === undefined ? '' : JSON.stringify(detail)].map(textOf)
    .find((text) => text !== '') ?? `status ${status ?? 'unknown'} without a message`
  const words = withoutPaths(said).replace(/\s+/g, ' ').trim().slice(0, MAX_CHARS)
  const number = status ?? numberOf(code)
  const [, context] = CONTEXT.exec(words) ?? []
  if (context !== undefined) {
    const prompt = Number(PROMPT.exec(words)?.[1] ?? Number(context))
    return contextExceeded(modelId, prompt, Number(context))
  }
  if (number !== undefined && REFUSED.includes(number)) {
    return new EngineError('invalid_request', `${name} refused the request: ${words}`)
  }
  return status === undefined && (number ?? INTERNAL) >= INTERNAL
    ? new BrokenAnswer(`${name} failed: ${words}`)
    : new EngineError('provider_error', `${name} failed: ${words}`)
}
