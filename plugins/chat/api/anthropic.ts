/** Anthropic's API: POST /v1/messages. */
import { fieldsOf, parsed, present, type Fields } from '../json.js'
import { samplingOf, strictFields } from '../sampling.js'
import { answer, namedEvent } from './answer.js'
import { refused, stringAt } from './errors.js'
import { name } from './schema.js'
import { imagePart, wholeOf } from './images.js'
import { chatTask, eyesOf, functionCall, functionTool, partText, textOf } from './task.js'
import type { ErrorBody, FromSchema } from '../../../kernel/index.js'
import type { AnswerFormat, Facts, Formatter, Framing, Handler } from './answer.js'
import type { Collector, EndPiece, Finish, TextPiece, Totals } from './pieces.js'
import type { Rules } from './errors.js'
import type { Eyes } from './images.js'
import type { ChatBody, InputMessage, Tool } from './task.js'

const blocks = { type: ['string', 'array'], items: { type: 'object', required: ['type'] } } as const

/** Body of POST /v1/messages. Unknown fields are ignored. */
export const messagesBody = {
  type: 'object', required: ['model', 'max_tokens', 'messages'],
  properties: {
    model: name,
    max_tokens: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
    messages: {
      type: 'array', minItems: 1,
      items: {
        type: 'object', required: ['role', 'content'],
        properties: { role: { enum: ['user', 'assistant'] }, content: blocks }
      }
    },
    system: blocks,
    stop_sequences: { type: 'array', items: name },
    ...strictFields('anthropic'),
    stream: { type: 'boolean' },
    tools: {
      type: 'array',
      items: {
        type: 'object', required: ['name'],
        properties: {
          type: { type: 'string' }, name, description: { type: 'string' }, input_schema: { type: 'object' }
        }
      }
    },
    tool_choice: {
      type: 'object', required: ['type'],
      properties: {
        type: { enum: ['auto', 'any', 'tool', 'none'] }, name, disable_parallel_tool_use: { type: 'boolean' }
      }
    },
    thinking: { type: 'object', required: ['type'], properties: { type: { type: 'string' } } }
  }
} as const

/** A valid body of POST /v1/messages. */
export type MessagesBody = FromSchema<typeof messagesBody>
type Block = Record<string, unknown>

/** POST /v1/messages. */
export const messages: Handler<typeof messagesBody> = async (parts, request) => {
  const { body } = request
  await answer(parts, request, chatTask(fromAnthropic(body, parts), parts), body.stream === true, format)
}

/** Throws `invalid_request` naming the field. */
export function fromAnthropic (body: MessagesBody, rules: Pick<Rules, 'aliases' | 'sees'>): ChatBody {
  const { model, max_tokens, thinking, stop_sequences: stop, tools, tool_choice: choice } = body
  const system = textOf(body.system ?? null, 'system')
  const messages = body.messages.flatMap(({ role, content }, i) =>
    messagesOf(role, content, `messages.${i}.content`, eyesOf(rules, model)))
  return {
    model, max_tokens,
    messages: system === null ? messages : [{ role: 'system', content: system }, ...messages],
    ...samplingOf('anthropic', body),
    ...present({
      stop, tools: tools?.map(toolOf), tool_choice: choiceOf(choice),
      parallel_tool_calls: choice?.disable_parallel_tool_use === true ? false : null,
      chat_template_kwargs: thinking === undefined ? null : { enable_thinking: thinking.type !== 'disabled' }
    })
  }
}

function toolOf (tool: NonNullable<MessagesBody['tools']>[number], i: number): Tool {
  const { type = 'custom', name, description = null, input_schema: parameters = null } = tool
  if (type === 'custom') return functionTool(name, { description, parameters })
  throw refused(`tools.${i}.type`, `"${type.slice(0, 64)}" is not served; send tools of your own`)
}

function choiceOf (choice: MessagesBody['tool_choice']): ChatBody['tool_choice'] {
  if (choice === undefined) return null
  if (choice.type !== 'tool') return choice.type === 'any' ? 'required' : choice.type
  if (choice.name === undefined) throw refused('tool_choice.name', 'is required')
  return { type: 'function', function: { name: choice.name } }
}

/** A message with results of tools is several messages in the chat API: the results come first. */
function messagesOf (
  role: string, content: string | Block[], path: string, eyes: Eyes
): InputMessage[] {
  if (typeof content === 'string') return [{ role, content }]
  const results: InputMessage[] = []
  const calls: object[] = []
  const parts: Fields[] = []
  let thoughts = ''
  for (const [i, block] of content.entries()) {
    const at = `${path}.${i}`
    switch (block['type']) {
      case 'tool_result': results.push(resultOf(block, at)); break
      case 'tool_use': calls.push(callOf(block, at)); break
      case 'thinking': thoughts += stringAt(block, 'thinking', at); break
      case 'redacted_thinking': break
      case 'image': parts.push(imageOf(block, at, eyes)); break
      default: parts.push({ type: 'text', text: partText(block, at) })
    }
  }
  if (parts.length === 0 && calls.length === 0) return results
  const whole = parts.length === 0 ? null : wholeOf(parts)
  const reasoning = thoughts === '' ? null : thoughts
  return [...results, { role, content: whole, tool_calls: calls, reasoning_content: reasoning }]
}

/** An image as a part of the chat API. Throws `invalid_request`. */
function imageOf (block: Block, path: string, eyes: Eyes): Fields {
  const { type, media_type: media, data, url } = fieldsOf(block['source'])
  const address = type === 'base64' ? `data:${String(media)};base64,${String(data)}` : url
  return imagePart({ type: 'image_url', image_url: { url: address } }, path, eyes, 'source')
}

function resultOf (block: Block, path: string): InputMessage {
  const content = block['content'] ?? ''
  if (typeof content !== 'string' && !Array.isArray(content)) {
    throw refused(`${path}.content`, 'must be a string or a list')
  }
  return {
    role: 'tool',
    tool_call_id: stringAt(block, 'tool_use_id', path),
    content: textOf(content, `${path}.content`)
  }
}

const callOf = (block: Block, path: string): object => functionCall(
  stringAt(block, 'id', path), stringAt(block, 'name', path), JSON.stringify(block['input'] ?? {}))

type Value = { type: string } & Record<string, unknown>

/** Anthropic's types of errors, by status. */
const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error', 401: 'authentication_error', 403: 'permission_error', 404: 'not_found_error',
  413: 'request_too_large', 429: 'rate_limit_error', 503: 'overloaded_error', 504: 'timeout_error'
}

/** The one error body in Anthropic's format. */
export function anthropicFailure ({ error, detail }: ErrorBody): object {
  const type = ERROR_TYPES[error.code] ?? (error.code < 500 ? 'invalid_request_error' : 'api_error')
  return { type: 'error', error: { ...error, type }, request_id: error.requestId, detail }
}

const STOP_REASONS: Readonly<Record<Finish, string>> = {
  stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use'
}

/** Named events. */
const framing: Framing = {
  contentType: 'text/event-stream',
  begin: () => ': keep-alive\n\n',
  value: namedEvent,
  end: () => '',
  beat: 'event: ping\ndata: {"type":"ping"}\n\n',
  failed: (error) => `event: error\ndata: ${JSON.stringify(anthropicFailure(error))}\n\n`
}

/** Why an answer ended, and the stop text where that is one of the request's. */
const endOf = ({ finish, stop }: Pick<EndPiece, 'finish' | 'stop'>): object =>
  stop !== null && finish === 'stop'
    ? { stop_reason: 'stop_sequence', stop_sequence: stop }
    : { stop_reason: STOP_REASONS[finish], stop_sequence: null }

const usageOf = (totals: Totals): object => ({
  input_tokens: totals.promptTokens - totals.cachedTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: totals.cachedTokens,
  output_tokens: totals.completionTokens
})

const messageOf = ({ id, model }: Facts, more: object): object =>
  ({ id: `msg_${id}`, type: 'message', role: 'assistant', model, ...more })

/** The events of a stream. Blocks follow each other; each is closed before the next one opens. */
class MessageFormatter implements Formatter {
  readonly #facts: Facts
  #index = -1
  /** What the open block is: a type, or a call's index. */
  #open: string | number | null = null
  #end = endOf({ finish: 'stop', stop: null })

  constructor (facts: Facts) { this.#facts = facts }

  begin (promptTokens: number): Value[] {
    const usage = { input_tokens: promptTokens, output_tokens: 0 }
    const message = messageOf(this.#facts, { content: [], stop_reason: null, stop_sequence: null, usage })
    return [{ type: 'message_start', message }, { type: 'ping' }]
  }

  piece (piece: TextPiece | EndPiece): Value[] {
    if (piece.kind === 'end') {
      this.#end = endOf(piece)
      return this.#closed()
    }
    const { reasoning, content, calls } = piece
    const values: Value[] = []
    if (reasoning !== '') {
      values.push(...this.#opened('thinking', { type: 'thinking', thinking: '', signature: '' }))
      values.push(this.#delta({ type: 'thinking_delta', thinking: reasoning }))
    }
    if (content !== '') {
      values.push(...this.#opened('text', { type: 'text', text: '' }))
      values.push(this.#delta({ type: 'text_delta', text: content }))
    }
    for (const { index, id, name, arguments: json = '' } of calls) {
      values.push(...this.#opened(index, { type: 'tool_use', id, name, input: {} }))
      values.push(this.#delta({ type: 'input_json_delta', partial_json: json }))
    }
    return values
  }

  end (totals: Totals): Value[] {
    return [{ type: 'message_delta', delta: this.#end, usage: usageOf(totals) }, { type: 'message_stop' }]
  }

  #opened (what: string | number, block: object): Value[] {
    if (this.#open === what) return []
    const closed = this.#closed()
    this.#open = what
    this.#index++
    return [...closed, { type: 'content_block_start', index: this.#index, content_block: block }]
  }

  #closed (): Value[] {
    if (this.#open === null) return []
    this.#open = null
    return [{ type: 'content_block_stop', index: this.#index }]
  }

  #delta (delta: object): Value { return { type: 'content_block_delta', index: this.#index, delta } }
}

/** The whole answer. A call that was cut off has no arguments that can be read. */
function wholeMessage ({ only: choice, totals }: Collector, facts: Facts): object {
  const content: object[] = []
  if (choice.reasoning !== '') content.push({ type: 'thinking', thinking: choice.reasoning, signature: '' })
  if (choice.content !== '') content.push({ type: 'text', text: choice.content })
  for (const { id, name, arguments: json } of choice.calls) {
    content.push({ type: 'tool_use', id, name, input: fieldsOf(parsed(json)) })
  }
  return messageOf(facts, { content, ...endOf(choice), usage: usageOf(totals) })
}

const format: AnswerFormat = {
  framing, formatter: (facts) => new MessageFormatter(facts), whole: wholeMessage
}
