/** Requests to a server, and what they cost. Pure. */
import { fieldsOf, numberOf, present, type Fields } from '../runners/language/json.js'
import type { Amount } from '../capabilities/service.js'
import type { Entry, Price } from './settings.js'

/** Fields that svc sets itself, or that would name files, models or transfers at the server. */
const OWN = new Set(['model', 'models', 'route', 'provider', 'fallbacks', 'preset', 'n', 'best_of',
  'n_predict', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'chat_template',
  'chat_template_kwargs', 'adapters', 'draft_model', 'kv_transfer_params', 'response_format', 'stream',
  'stream_options', 'extra_body'])

/** The body for one answer; other fields of the task pass unchanged. */
export function bodyFor (payload: Fields, { id, maxTokens, price }: Entry): Record<string, unknown> {
  const { n_predict: predict, max_tokens: asked = predict, response_format: format } = payload
  const most = Math.min(numberOf(asked) ?? Infinity, maxTokens ?? Infinity)
  const given = fieldsOf(payload['chat_template_kwargs'])
  const { reasoning_effort: effort, enable_thinking: thinks, ...rest } = given
  // The chat route derives both from the field `reasoning_effort`, which servers read.
  const variables = effort === undefined ? { ...rest, ...present({ enable_thinking: thinks }) } : rest
  return {
    // Fields that svc does not know may raise the cost above the estimate.
    ...Object.fromEntries(Object.entries({ ...price ? {} : fieldsOf(payload['extra_body']), ...payload })
      .filter(([name]) => !OWN.has(name))),
    ...present({
      max_tokens: most === Infinity ? null : most, reasoning_effort: effort,
      chat_template_kwargs: Object.keys(variables).length === 0 ? null : variables,
      response_format: format === undefined ? null : withName(fieldsOf(format))
    }),
    model: id, stream: true, stream_options: { include_usage: true }
  }
}

/** OpenAI requires a name of a schema. */
const withName = (format: Fields): Fields => format['type'] !== 'json_schema' ? format
  : { ...format, json_schema: { name: 'answer', ...fieldsOf(format['json_schema']) } }

const BYTES_PER_TOKEN = 3

/** The cost of answers of `max_tokens`, and of one token for every 3 bytes of messages and tools. */
export function estimatedCost (
  { messages, tools, max_tokens: most }: Fields, { currency, prompt, completion }: Price, answers: number
): Amount {
  const tokens = Math.ceil(Buffer.byteLength(JSON.stringify([messages, tools])) / BYTES_PER_TOKEN)
  // A price of 1 for 1,000,000 tokens is 1,000 billionths for each.
  const each = (tokens * prompt + (numberOf(most) ?? 0) * completion) * 1000
  return { unit: currency, nano: Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(each * answers)) }
}
