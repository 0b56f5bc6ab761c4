/** Requests of OpenAI's Responses route as chat requests. Pure. */
import { nullableFields, samplingOf } from '../sampling.js'
import { sampling } from './schema.js'
import { refused } from './errors.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { InputMessage } from './messages.js'
import type { ChatBody } from './task.js'

const name = { type: 'string', minLength: 1 } as const
const optional = <const T extends string>(type: T) => ({ type: [type, 'null'] }) as const

/** Body of POST /v1/responses. Unknown fields are ignored, null is as good as absent. */
export const responsesBody = {
  type: 'object', required: ['model', 'input'],
  properties: {
    model: name,
    input: { type: ['string', 'array'], minItems: 1, items: { type: 'object' } },
    instructions: optional('string'),
    max_output_tokens: sampling.max_tokens,
    ...nullableFields('responses'),
    top_logprobs: { type: ['integer', 'null'], minimum: 0, maximum: 20 },
    stream: optional('boolean'),
    tools: {
      type: ['array', 'null'],
      items: {
        type: 'object', required: ['type'],
        properties: {
          type: { type: 'string' }, name, description: optional('string'), parameters: optional('object'),
          strict: optional('boolean')
        }
      }
    },
    tool_choice: { type: ['string', 'object', 'null'], required: ['type'] },
    parallel_tool_calls: optional('boolean'),
    text: {
      type: ['object', 'null'],
      properties: {
        format: {
          type: 'object', required: ['type'],
          properties: {
            type: { enum: ['text', 'json_object', 'json_schema'] }, name: { type: 'string' },
            schema: { type: 'object' }, strict: optional('boolean')
          }
        }
      }
    },
    reasoning: { type: ['object', 'null'], properties: { effort: optional('string') } },
    metadata: optional('object'),
    store: optional('boolean'),
    background: optional('boolean'),
    previous_response_id: optional('string'),
    conversation: { type: ['object', 'string', 'null'] }
  }
} as const

/** A request as its schema has let it through. */
export type ResponsesBody = FromSchema<typeof responsesBody>
type Item = Record<string, unknown>

/** Throws `invalid_request` naming the field. */
export function fromResponses (body: ResponsesBody): ChatBody {
  refuseMemory(body)
  const { model, instructions, max_output_tokens, parallel_tool_calls } = body
  const input: InputMessage[] = typeof body.input === 'string'
    ? [{ role: 'user', content: body.input }]
    : itemsAsMessages(body.input)
  const given = Object.entries({ parallel_tool_calls, max_tokens: max_output_tokens })
    .filter(([, value]) => value != null)
  const effort = body.reasoning?.effort
  return {
    model,
    messages: instructions == null ? input : [{ role: 'system', content: instructions }, ...input],
    ...samplingOf('responses', body),
    ...Object.fromEntries(given),
    ...body.tools == null ? {} : { tools: body.tools.map(toolOf) },
    ...choiceOf(body.tool_choice),
    ...effort == null ? {} : { reasoning_effort: effort },
    ...formatOf(body)
  }
}

/** Answers are not kept here. */
function refuseMemory (body: ResponsesBody): void {
  if (body.store === true) throw refused('store', 'must be false: answers are not kept here')
  if (body.background === true) throw refused('background', 'must be false: answers are not kept here')
  const why = 'cannot be followed: answers are not kept here; send the whole conversation as input'
  if (body.previous_response_id != null) throw refused('previous_response_id', why)
  if (body.conversation != null) throw refused('conversation', why)
  if (body.top_logprobs != null && body.top_logprobs > 0) {
    throw refused('top_logprobs', 'is not served here; POST /v1/chat/completions has it')
  }
}

type ResponseTool = NonNullable<ResponsesBody['tools']>[number]

function toolOf (tool: ResponseTool, i: number): NonNullable<ChatBody['tools']>[number] {
  const { type, name, description, parameters, strict } = tool
  if (type !== 'function') {
    throw refused(`tools.${i}.type`, `"${type.slice(0, 64)}" is not served; send functions of your own`)
  }
  if (name === undefined) throw refused(`tools.${i}.name`, 'is required')
  const given = Object.entries({ description, parameters, strict }).filter(([, value]) => value != null)
  return { type, function: { name, ...Object.fromEntries(given) } }
}

function choiceOf (choice: unknown): Pick<ChatBody, 'tool_choice'> {
  if (choice == null) return {}
  if (typeof choice === 'string') return { tool_choice: choice }
  const { type, name } = choice as { type?: unknown, name?: unknown }
  if (type === 'function' && typeof name === 'string') return { tool_choice: { type, function: { name } } }
  throw refused('tool_choice', 'must be "none", "auto", "required" or {type: function, name}')
}

function formatOf (body: ResponsesBody): Pick<ChatBody, 'response_format'> {
  const format = body.text?.format
  if (format === undefined) return {}
  const { type, schema } = format
  if (type !== 'json_schema') return { response_format: { type } }
  if (schema === undefined) throw refused('text.format.schema', 'is required')
  return { response_format: { type, json_schema: { schema } } }
}

/** Calls that follow each other, and the text before them, are one message of the assistant. */
function itemsAsMessages (items: readonly Item[]): InputMessage[] {
  const messages: InputMessage[] = []
  const assistant = (): InputMessage => {
    const last = messages.at(-1)
    if (last?.role === 'assistant') return last
    const made: InputMessage = { role: 'assistant', content: null }
    messages.push(made)
    return made
  }
  for (const [i, item] of items.entries()) {
    const path = `input.${i}`
    switch (item['type'] ?? 'message') {
      case 'message': messages.push(messageOf(item, path)); break
      case 'function_call': {
        const message = assistant()
        message.tool_calls = [...message.tool_calls ?? [], callOf(item, path)]
        break
      }
      case 'function_call_output':
        messages.push({
          role: 'tool',
          tool_call_id: stringAt(item, 'call_id', path),
          content: contentAt(item, 'output', path)
        })
        break
      case 'reasoning': break
      default: throw refused(`${path}.type`, `"${String(item['type']).slice(0, 64)}" is not served here`)
    }
  }
  return messages
}

const ROLES = ['system', 'developer', 'user', 'assistant']

function messageOf (item: Item, path: string): InputMessage {
  const role = stringAt(item, 'role', path)
  if (!ROLES.includes(role)) throw refused(`${path}.role`, `must be one of ${ROLES.join(', ')}`)
  return { role, content: contentAt(item, 'content', path) }
}

const callOf = (item: Item, path: string): object => ({
  id: stringAt(item, 'call_id', path),
  type: 'function',
  function: { name: stringAt(item, 'name', path), arguments: stringAt(item, 'arguments', path) }
})

function contentAt (item: Item, key: string, path: string): string | unknown[] {
  const value = item[key]
  const isPart = (part: unknown): boolean => typeof part === 'object' && part !== null
  if (typeof value === 'string' || (Array.isArray(value) && value.every(isPart))) return value
  throw refused(`${path}.${key}`, 'must be a string or a list of parts')
}

function stringAt (item: Item, key: string, path: string): string {
  const value = item[key]
  if (typeof value !== 'string') throw refused(`${path}.${key}`, 'must be a string')
  return value
}
