/** Maps errors from llama.cpp's server to svc's errors. Pure. */
import { EngineError } from '../../../kernel/api/engine.js'
import { contextExceeded, invalid } from '../../runners/language/refusals.js'
import { fieldsOf, numberOf, textOf } from '../../runners/language/json.js'
import { withoutPaths } from '../../runners/openai/errors.js'

const MAX_CHARS = 1_000
const BAD_REQUEST = 400
const NOT_SERVED = 501
const TOO_LONG = RegExp('exceeds the available context size|larger than the max context size|' +
  'input (?:\\(\\d+ tokens\\) )?is too large to process', 'i')
const NO_IMAGE = /failed to load image/i
/** llama.cpp's messages for an answer without a valid tool call, from its sampler and from its parser. */
const NO_CALL = /unexpected empty grammar stack|produced output that does not match the expected/i
/** Matches the last line that llama-server writes if it cannot parse the chat template. */
const NO_TEMPLATE = /common_chat_template|chat template/i
const REFUSALS = new Set(['invalid_request_error', 'not_supported_error'])

/** Token counts from an error about the context size; older servers report them only in the message. */
function counts (error: Record<string, unknown>, message: string): (number | undefined)[] {
  const said = [...message.matchAll(/\((\d+) tokens\)/g)].map(([, number]) => Number(number))
  return [numberOf(error['n_prompt_tokens']) ?? said[0], numberOf(error['n_ctx']) ?? said[1]]
}

function tooLong (error: Record<string, unknown>, message: string, modelId: string): EngineError {
  const [prompt, context] = counts(error, message)
  const details = {
    ...prompt === undefined ? {} : { prompt_tokens: prompt },
    ...context === undefined ? {} : { context_length: context }
  }
  return prompt === undefined || context === undefined
    ? new EngineError('context_length_exceeded',
        `context_length_exceeded: this model's maximum context length is exceeded: ${message}`, details)
    : contextExceeded(modelId, prompt, context)
}

/** Matches the first line of a stack trace, from the template engine or from the program. */
const TRACE = /^(-{4,}$|While executing |#\d+ |\d+: |[^\s(]+\([^\s+]*\+0x[\da-f]+\))/

/** Removes a stack trace from a message, but keeps the cause, which precedes it or follows as `Error:`. */
function withoutTrace (message: string): string {
  const lines = message.split('\n')
  const at = lines.findIndex((line, i) => (i > 0 || line.startsWith('While')) && TRACE.test(line.trim()))
  if (at < 0) return message
  const below = lines.slice(at).find((line) => line.startsWith('Error: '))?.slice('Error: '.length) ?? ''
  return `${lines.slice(0, at).join('\n').trimEnd()} ${below}`
}

/** Reason of the error if llama-server exited before it was ready; `said` is its output. */
export const startReason = (said: string): string =>
  NO_TEMPLATE.test(said) ? 'chat_template_unreadable' : 'provider_error'

/**
 * Maps an error from the server. `body` is `{ error: { code, message, type } }` or the inner object; `status`
 * is the HTTP status, if any.
 */
export function serverError (body: unknown, modelId: string, status?: number): EngineError {
  const error = fieldsOf(fieldsOf(body)['error'] ?? body)
  const type = textOf(error['type'])
  const code = status ?? numberOf(error['code'])
  const cleaned = withoutPaths(withoutTrace(textOf(error['message'])))
  const given = cleaned.replace(/\s+/g, ' ').trim().slice(0, MAX_CHARS)
  const message = given === '' ? `status ${code ?? 'unknown'} without a message` : given
  if (type === 'exceed_context_size_error' || TOO_LONG.test(message)) return tooLong(error, message, modelId)
  if (NO_IMAGE.test(message)) {
    return invalid('an image in the messages is damaged and cannot be decoded', 'messages')
  }
  if (NO_CALL.test(message)) {
    return new EngineError('tool_call_unreadable',
      `${modelId} started a tool call that cannot be parsed (llama-server: ${message})`)
  }
  if (REFUSALS.has(type) || code === BAD_REQUEST || code === NOT_SERVED) {
    return new EngineError('invalid_request', `llama-server refused the request: ${message}`)
  }
  return new EngineError('provider_error', `llama-server failed: ${message}`)
}
