/** What llama.cpp's server refuses or fails at, as this product's errors. Pure. */
import { EngineError } from '../../../kernel/api/engine.js'
import { contextExceeded, invalid } from '../../runners/language/refusals.js'
import { fieldsOf, numberOf, textOf } from '../../runners/language/json.js'

const MAX_CHARS = 1_000
const BAD_REQUEST = 400
const NOT_SERVED = 501
const TOO_LONG = RegExp('exceeds the available context size|larger than the max context size|' +
  'input (?:\\(\\d+ tokens\\) )?is too large to process', 'i')
const NO_IMAGE = /failed to load image/i
/** It holds a model to the shape of a call from the token after the one that begins it, or reads it then. */
const NO_CALL = /unexpected empty grammar stack|produced output that does not match the expected/i
/** llama-server ends with such a line when it cannot read the chat template. */
const NO_TEMPLATE = /common_chat_template|chat template/i
const REFUSALS = new Set(['invalid_request_error', 'not_supported_error'])

/** The connection to the server broke, or what came over it is no answer; the server may be gone. */
export class BrokenAnswer extends Error {
  constructor (message: string) {
    super(message)
    this.name = 'BrokenAnswer'
  }
}

/** Counts of tokens in an error; older servers say them in the message only. */
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

/** First line of a stack, of the template engine or of the program. */
const TRACE = /^(-{4,}$|While executing |#\d+ |\d+: |[^\s(]+\([^\s+]*\+0x[\da-f]+\))/

/** The message without a stack: the line that says what is wrong stands before it or, as `Error:`, below. */
function withoutTrace (message: string): string {
  const lines = message.split('\n')
  const at = lines.findIndex((line, i) => (i > 0 || line.startsWith('While')) && TRACE.test(line.trim()))
  if (at < 0) return message
  const below = lines.slice(at).find((line) => line.startsWith('Error: '))?.slice('Error: '.length) ?? ''
  return `${lines.slice(0, at).join('\n').trimEnd()} ${below}`
}

/** Clients must not learn where files are on this machine. */
export const withoutPaths = (message: string): string =>
  message.replace(/(['"])\/[^'"]*\1/g, '$1[path]$1').replace(/(^|[\s(=:])\/[^\s'"):,]+/g, '$1[path]')

/** Explains by its output why a program ended before it was ready. */
export const startError = (said: string): EngineError => {
  const reason = NO_TEMPLATE.test(said) ? 'chat_template_unreadable' : 'provider_error'
  return new EngineError(reason, withoutPaths(said))
}

/**
 * An error of the server: `body` is `{ error: { code, message, type } }`, or the error itself; `status` that
 * of the answer, where there is one.
 */
export function serverError (body: unknown, modelId: string, status?: number): EngineError {
  const error = fieldsOf(fieldsOf(body)['error'] ?? body)
  const type = textOf(error['type'])
  const code = status ?? numberOf(error['code'])
  const told = withoutPaths(withoutTrace(textOf(error['message'])))
  const given = told.replace(/\s+/g, ' ').trim().slice(0, MAX_CHARS)
  const message = given === '' ? `an answer with status ${code ?? 'unknown'} and no message` : given
  if (type === 'exceed_context_size_error' || TOO_LONG.test(message)) return tooLong(error, message, modelId)
  if (NO_IMAGE.test(message)) {
    return invalid('an image of the messages cannot be decoded: it is damaged', 'messages')
  }
  if (NO_CALL.test(message)) {
    return new EngineError('tool_call_unreadable',
      `${modelId} began a tool call and wrote none that can be read (llama-server: ${message})`)
  }
  if (REFUSALS.has(type) || code === BAD_REQUEST || code === NOT_SERVED) {
    return new EngineError('invalid_request', `llama-server refused the request: ${message}`)
  }
  return new EngineError('provider_error', `llama-server failed: ${message}`)
}
