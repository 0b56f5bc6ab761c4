/** OpenAI's Responses API: POST /v1/responses. */
import { isObject, present } from '../json.js'
import { nullableFields, samplingOf } from '../sampling.js'
import { answer, namedEvent } from './answer.js'
import { refused, stringAt } from './errors.js'
import { name, optional, sampling } from './schema.js'
import { imagePart, wholeOf } from './images.js'
import { chatTask, eyesOf, functionCall, functionTool, partText, textOf } from './task.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { AnswerFormat, Facts, Formatter, Framing, Handler } from './answer.js'
import type { Collector, EndPiece, Finish, TextPiece, Totals } from './pieces.js'
import type { Fields } from '../json.js'
import type { Rules } from './errors.js'
import type { Eyes } from './images.js'
import type { ChatBody, InputMessage, Tool } from './task.js'

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

/** A valid body of POST /v1/responses. */
export type ResponsesBody = FromSchema<typeof responsesBody>
type InputItem = Record<string, unknown>

/** POST /v1/responses. */
export const responses: Handler<typeof responsesBody> = async (parts, request) => {
  const { body } = request
  const asked = chatTask(fromResponses(body, parts), parts)
  await answer(parts, request, asked, body.stream === true, formatOf(body))
}

/** Throws `invalid_request` naming the field. */
export function fromResponses (body: ResponsesBody, rules: Pick<Rules, 'aliases' | 'sees'>): ChatBody {
  refuseMemory(body)
  const { model, instructions, input, parallel_tool_calls, max_output_tokens: max_tokens, reasoning } = body
  const messages = typeof input === 'string'
    ? [{ role: 'user', content: input }]
    : messagesOf(input, eyesOf(rules, model))
  return {
    model,
    messages: instructions == null ? messages : [{ role: 'system', content: instructions }, ...messages],
    ...samplingOf('responses', body),
    ...present({
      parallel_tool_calls, max_tokens, reasoning_effort: reasoning?.effort,
      tools: body.tools?.map(toolOf), tool_choice: choiceOf(body.tool_choice),
      response_format: responseFormat(body)
    })
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

function toolOf (tool: NonNullable<ResponsesBody['tools']>[number], i: number): Tool {
  const { type, name, description = null, parameters = null, strict = null } = tool
  if (type !== 'function') {
    throw refused(`tools.${i}.type`, `"${type.slice(0, 64)}" is not served; send functions of your own`)
  }
  if (name === undefined) throw refused(`tools.${i}.name`, 'is required')
  return functionTool(name, { description, parameters, strict })
}

function choiceOf (choice: ResponsesBody['tool_choice']): ChatBody['tool_choice'] {
  if (choice == null || typeof choice === 'string') return choice
  const { type, name } = choice
  if (type === 'function' && typeof name === 'string') return { type, function: { name } }
  throw refused('tool_choice', 'must be "none", "auto", "required" or {type: function, name}')
}

function responseFormat ({ text }: ResponsesBody): ChatBody['response_format'] {
  const { type, schema } = text?.format ?? {}
  if (type !== 'json_schema') return type === undefined ? null : { type }
  if (schema === undefined) throw refused('text.format.schema', 'is required')
  return { type, json_schema: { schema } }
}

/** Calls that follow each other, and the text before them, are one message of the assistant. */
function messagesOf (items: readonly InputItem[], eyes: Eyes): InputMessage[] {
  const messages: InputMessage[] = []
  for (const [i, item] of items.entries()) {
    const path = `input.${i}`
    switch (item['type'] ?? 'message') {
      case 'message': messages.push(messageOf(item, path, eyes)); break
      case 'function_call': {
        if (messages.at(-1)?.role !== 'assistant') messages.push({ role: 'assistant', content: null })
        const message = messages.at(-1)!
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

function messageOf (item: InputItem, path: string, eyes: Eyes): InputMessage {
  const role = stringAt(item, 'role', path)
  if (!ROLES.includes(role)) throw refused(`${path}.role`, `must be one of ${ROLES.join(', ')}`)
  const content = item['content']
  return { role, content: role === 'user' && isParts(content) && content.some(isInputImage)
    ? wholeOf(content.map((part, i) => partAt(part, `${path}.content.${i}`, eyes)))
    : contentAt(item, 'content', path) }
}

const callOf = (item: InputItem, path: string): object => functionCall(
  stringAt(item, 'call_id', path), stringAt(item, 'name', path), stringAt(item, 'arguments', path))

const isInputImage = (part: Fields): boolean => part['type'] === 'input_image'

/** A part of a user's message in the format of the chat API. Throws `invalid_request`. */
function partAt (part: Fields, path: string, eyes: Eyes): Fields {
  if (!isInputImage(part)) return { type: 'text', text: partText(part, path) }
  const { image_url: url, file_id: file, detail } = part
  if (url == null && file != null) throw refused(`${path}.file_id`, 'is not served: no files are kept here')
  return imagePart({ image_url: { url, detail } }, path, eyes)
}

const isParts = (value: unknown): value is Fields[] => Array.isArray(value) && value.every(isObject)

function contentAt (item: InputItem, key: string, path: string): string | null {
  const value = item[key]
  if (typeof value !== 'string' && !isParts(value)) {
    throw refused(`${path}.${key}`, 'must be a string or a list of parts')
  }
  return textOf(value, `${path}.${key}`)
}

type Value = { type: string } & Record<string, unknown>

/** Named events; a failure is an `error` event with the error body. */
const framing: Framing = {
  contentType: 'text/event-stream',
  begin: (commandId) => `: keep-alive\n\n: command_id ${commandId}\n\n`,
  value: namedEvent,
  end: () => '',
  beat: ': keep-alive\n\n',
  failed: (body) => {
    const { reason: code, message, param } = body.error
    return namedEvent({ type: 'error', code, message, param, ...body })
  }
}

/** An item of the output while it is written; `text` is what it consists of. */
interface OutputItem {
  kind: 'reasoning' | 'message' | 'call', id: string, text: string, callId: string, name: string
}

/** What the events of an item's text begin with. */
const EVENTS = {
  reasoning: 'response.reasoning_text',
  message: 'response.output_text',
  call: 'response.function_call_arguments'
} as const

/** The one part that a text has; calls have none. */
function partOf (kind: OutputItem['kind'], text: string): object {
  if (kind === 'reasoning') return { type: 'reasoning_text', text }
  return { type: 'output_text', text, annotations: [], logprobs: [] }
}

function itemValue ({ kind, id, text, callId, name }: OutputItem, status: string): object {
  if (kind === 'call') return { id, type: 'function_call', status, call_id: callId, name, arguments: text }
  const content = status === 'in_progress' ? [] : [partOf(kind, text)]
  if (kind === 'reasoning') return { id, type: 'reasoning', status, summary: [], content }
  return { id, type: 'message', status, role: 'assistant', content }
}

/** The events of a stream. Items follow each other; each is complete before the next one begins. */
class ResponseFormatter implements Formatter {
  readonly #facts: Facts
  readonly #body: ResponsesBody
  readonly #done: object[] = []
  #open: OutputItem | null = null
  /** The call that is written, by its number. */
  #call = -1
  #finish: Finish = 'stop'
  #sequence = 0

  constructor (facts: Facts, body: ResponsesBody) {
    this.#facts = facts
    this.#body = body
  }

  begin (): Value[] {
    const response = this.#response('in_progress', null)
    return [this.#event('response.created', { response }), this.#event('response.in_progress', { response })]
  }

  piece (piece: TextPiece | EndPiece): Value[] {
    if (piece.kind === 'end') {
      this.#finish = piece.finish
      return this.#closed(piece.finish === 'length' ? 'incomplete' : 'completed')
    }
    const values: Value[] = []
    if (piece.reasoning !== '') values.push(...this.#written('reasoning', piece.reasoning))
    if (piece.content !== '') values.push(...this.#written('message', piece.content))
    for (const { index, id = '', name = '', arguments: text = '' } of piece.calls) {
      if (index !== this.#call) values.push(...this.#opened('call', id, name))
      this.#call = index
      values.push(...this.#written('call', text))
    }
    return values
  }

  end (totals: Totals): Value[] {
    const status = this.#finish === 'length' ? 'incomplete' : 'completed'
    return [this.#event(`response.${status}`, { response: this.#response(status, totals) })]
  }

  #written (kind: OutputItem['kind'], text: string): Value[] {
    const opened = this.#open?.kind === kind ? [] : this.#opened(kind)
    if (this.#open !== null) this.#open.text += text
    return [...opened, this.#event(`${EVENTS[kind]}.delta`, {
      ...this.#place(), delta: text, ...kind === 'message' ? { logprobs: [] } : {}
    })]
  }

  #opened (kind: OutputItem['kind'], callId = '', name = ''): Value[] {
    const closed = this.#closed('completed')
    const prefix = kind === 'call' ? 'fc' : kind === 'message' ? 'msg' : 'rs'
    this.#open = { kind, id: `${prefix}_${this.#facts.newId()}`, text: '', callId, name }
    const added = this.#event('response.output_item.added', {
      output_index: this.#done.length, item: itemValue(this.#open, 'in_progress')
    })
    if (kind === 'call') return [...closed, added]
    const part = this.#event('response.content_part.added', { ...this.#place(), part: partOf(kind, '') })
    return [...closed, added, part]
  }

  #closed (status: string): Value[] {
    const item = this.#open
    if (item === null) return []
    const { kind, text, name } = item
    const place = this.#place()
    const said = kind === 'call' ? { arguments: text, name } : { text }
    const logprobs = kind === 'message' ? { logprobs: [] } : {}
    const values = [this.#event(`${EVENTS[kind]}.done`, { ...place, ...said, ...logprobs })]
    if (kind !== 'call') {
      values.push(this.#event('response.content_part.done', { ...place, part: partOf(kind, text) }))
    }
    const value = itemValue(item, status)
    values.push(this.#event('response.output_item.done', { output_index: this.#done.length, item: value }))
    this.#done.push(value)
    this.#open = null
    return values
  }

  /** Where a text lies: item, and part of it. */
  #place (): object {
    const place = { item_id: this.#open?.id, output_index: this.#done.length }
    return this.#open?.kind === 'call' ? place : { ...place, content_index: 0 }
  }

  #event (type: string, more: object): Value { return { type, sequence_number: this.#sequence++, ...more } }

  #response (status: string, totals: Totals | null): object {
    const { id, created, model } = this.#facts
    const { instructions, metadata, max_output_tokens: most, parallel_tool_calls: parallel } = this.#body
    return {
      id: `resp_${id}`, object: 'response', created_at: created, status, background: false, error: null,
      incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
      instructions: instructions ?? null, max_output_tokens: most ?? null, model, output: [...this.#done],
      parallel_tool_calls: parallel ?? true, previous_response_id: null, store: false,
      temperature: this.#body.temperature ?? null, top_p: this.#body.top_p ?? null,
      text: this.#body.text ?? { format: { type: 'text' } }, tool_choice: this.#body.tool_choice ?? 'auto',
      tools: this.#body.tools ?? [], truncation: 'disabled', metadata: metadata ?? {},
      usage: totals === null ? null : usageOf(totals)
    }
  }
}

const usageOf = ({ promptTokens, completionTokens, cachedTokens }: Totals): object => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: cachedTokens },
  output_tokens: completionTokens,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: promptTokens + completionTokens
})

/** The whole answer: what the last event of its stream would hold. */
function wholeResponse ({ only: choice, totals }: Collector, facts: Facts, body: ResponsesBody): object {
  const formatter = new ResponseFormatter(facts, body)
  const calls = choice.calls.map((call, index) => ({ index, ...call }))
  formatter.piece({ ...choice, kind: 'text', calls })
  formatter.piece({ kind: 'end', index: 0, finish: choice.finish } as EndPiece)
  return formatter.end(totals)[0]?.['response'] as object
}

const formatOf = (body: ResponsesBody): AnswerFormat => ({
  framing,
  formatter: (facts) => new ResponseFormatter(facts, body),
  whole: (answer, facts) => wholeResponse(answer, facts, body)
})
