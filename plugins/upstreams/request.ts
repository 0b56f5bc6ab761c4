/** Requests to a server, and what they cost. Pure. */
import { fieldsOf, numberOf, textOf, type Fields } from '../runners/language/json.js'
import type { Amount } from '../capabilities/service.js'
import type { Entry, Price } from './settings.js'

/** Fields that svc sets itself, or that would name files, models or transfers at the server. */
const OWN = new Set(['model', 'n', 'n_predict', 'max_tokens', 'chat_template', 'chat_template_kwargs', 'adapters',
  'draft_model', 'kv_transfer_params', 'response_format', 'stream', 'stream_options'])

/** The body for one answer; other fields of the task pass unchanged. */
export function bodyFor (payload: Fields, { id, maxTokens }: Entry): Record<string, unknown> {
  const { n_predict: predict, max_tokens: asked = predict, response_format: format } = payload
  const most = Math.min(numberOf(asked) ?? Infinity, maxTokens ?? Infinity)
  const { reasoning_effort: effort, enable_thinking: thinks, ...others } = fieldsOf(payload['chat_template_kwargs'])
  const variables = { ...others, ...effort === undefined && thinks !== undefined ? { enable_thinking: thinks } : {} }
  return {
    ...Object.fromEntries(Object.entries(payload).filter(([name]) => !OWN.has(name))),
    model: id, stream: true, stream_options: { include_usage: true },
    ...most === Infinity ? {} : { max_tokens: most },
    ...effort === undefined ? {} : { reasoning_effort: effort },
    ...Object.keys(variables).length === 0 ? {} : { chat_template_kwargs: variables },
    ...format === undefined ? {} : { response_format: withName(fieldsOf(format)) }
  }
}

/** OpenAI requires a name of a schema. */
function withName (format: Fields): Fields {
  const schema = fieldsOf(format['json_schema'])
  return format['type'] !== 'json_schema' ? format
    : { ...format, json_schema: { ...schema, name: textOf(schema['name']) || 'answer' } }
}

const BYTES_PER_TOKEN = 3

/**
 * What `answers` answers cost at most: a token of the prompt for every 3 bytes of messages and tools, and
 * answers as long as `max_tokens`.
 */
export function estimatedCost (body: Fields, { currency, prompt, completion }: Price, answers: number): Amount {
  const tokens = Math.ceil(Buffer.byteLength(JSON.stringify([body['messages'], body['tools']])) / BYTES_PER_TOKEN)
  // A price of 1 for 1,000,000 tokens is 1,000 billionths for each.
  const each = (tokens * prompt + (numberOf(body['max_tokens']) ?? 0) * completion) * 1000
  return { unit: currency, nano: Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(each * answers)) }
}
