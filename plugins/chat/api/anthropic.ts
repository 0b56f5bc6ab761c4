/** Anthropic's API: POST /v1/messages, token counts, and stored conversations. */
import { badField, type FromSchema, type RouteRequest } from '../../../kernel/index.js'
import { fieldsOf, parsed, present, type Fields } from '../../runners/language/json.js'
import { samplingOf } from '../../runners/language/sampling.js'
import { answer, answerJson, withStorage, namedEvent } from './answer.js'
import { withApiFieldNames, notStored, stringAt, type Rules } from './errors.js'
import { anthropicFailure } from '../../staging/service.js'
import { imagePart, textUnlessImages, type VisionSupport } from './images.js'
import {
  chatTask, visionSupportOf, functionCall, functionTool, partText, textOf, type VisionRules
} from './request-to-task.js'
import { countTokens } from './tokens.js'
import type {
  AnswerFormat, ApiParts, TextRequest, AnswerMetadata, Formatter, Framing, Handler
} from './types.js'
import type { countBody, messagesBody, MessagesBody, Thread } from './anthropic-body.js'
import type { Collector, EndPiece, Finish, TextPiece, Totals } from './pieces.js'
import type { ChatBody, InputMessage, Tool } from './schema.js'

type CountBody = FromSchema<typeof countBody>
type Block = Record<string, unknown>

export const messages: Handler<typeof messagesBody> = async (parts, request) => {
  const body = resumed(parts, request)
  const { thread, system, tools, messages } = body
  const keep = (made: object): void => {
    const { id, content } = made as { id: string, content: Block[] }
    const turn = { role: 'assistant', content } as const
    parts.threads.put(id, request.caller.id,
      { messages: [...messages, turn], ...present({ system, tools }) } as Thread)
  }
  await answer(parts, request, asTask(body, parts), body.stream === true,
    thread == null ? format : withStorage(format, keep))
}

export const countMessages: Handler<typeof countBody> = async (parts, request) => {
  const asked = asTask(request.body, parts)
  await answerJson(parts, request, async (call) =>
    ({ input_tokens: await countTokens(parts, asked, call), context_management: null }))
}

/** Prepends the stored conversation that the request continues. Throws `invalid_request`, `not_kept`. */
function resumed (
  parts: ApiParts, { body, caller }: RouteRequest<{ readonly body: typeof messagesBody }>
): MessagesBody {
  const { type, previous_message_id: id } = body.thread ?? {}
  if (type !== 'continue') return body
  if (id === undefined) throw badField('thread.previous_message_id', 'is required')
  for (const field of ['system', 'tools'] as const) {
    if (body[field] === undefined) continue
    throw badField(field, 'belongs to the thread: leave it out, or create another thread')
  }
  const kept = parts.threads.get(id, caller.id)
  if (kept === undefined) throw notStored('thread.previous_message_id', id,
    { error_code: 'thread_not_found' })
  return { ...body, ...kept, messages: [...kept.messages, ...body.messages] }
}

/** Anthropic's names for chat request fields. */
const NAMES = { stop: 'stop_sequences', response_format: 'output_config.format' }

const asTask = (body: MessagesBody | CountBody, rules: Rules): TextRequest =>
  withApiFieldNames(NAMES, () => chatTask(fromAnthropic(body, rules), rules))

/** Converts a body to a chat request. Throws `invalid_request` naming the field. */
export function fromAnthropic (body: MessagesBody | CountBody, rules: VisionRules): ChatBody {
  const { model, thinking, tools, tool_choice: choice, output_config: output } = body
  const { max_tokens, stop_sequences: stop } = body as Partial<MessagesBody>
  if (body.messages.at(-1)?.role === 'assistant') {
    throw badField('messages', 'must end with a user message: prefilled answers are not supported')
  }
  const system = textOf(body.system ?? null, 'system')
  const messages = body.messages.flatMap(({ role, content }, i) =>
    messagesOf(role, content, `messages.${i}.content`, visionSupportOf(rules, model)))
  const schema = (output?.format ?? body.output_format)?.schema
  return {
    model,
    messages: system === null ? messages : [{ role: 'system', content: system }, ...messages],
    ...samplingOf('anthropic', body),
    ...present({
      max_tokens, stop, tools: tools?.map(toolOf), tool_choice: choiceOf(choice),
      parallel_tool_calls: choice?.disable_parallel_tool_use === true ? false : null,
      response_format: schema === undefined
        ? null
        : { type: 'json_schema', json_schema: { schema } } as const,
      chat_template_kwargs: variablesOf(thinking?.type, output?.effort)
    })
  }
}

/** Template variables for thinking; null if the request sets none. */
function variablesOf (
  thinking: string | undefined, effort: string | null | undefined
): Record<string, unknown> | null {
  if (thinking === undefined && effort == null) return null
  return {
    ...thinking === undefined ? {} : { enable_thinking: thinking !== 'disabled' },
    ...effort == null ? {} : { reasoning_effort: effort }
  }
}

function toolOf (tool: NonNullable<MessagesBody['tools']>[number], i: number): Tool {
  const { type, name, description = null, input_schema: parameters = null } = tool
  if (type == null || type === 'custom') return functionTool(name, { description, parameters })
  throw badField(`tools.${i}.type`, `"${type.slice(0, 64)}" is not served; send custom tools`)
}

function choiceOf (choice: MessagesBody['tool_choice']): ChatBody['tool_choice'] {
  if (choice === undefined) return null
  if (choice.type !== 'tool') return choice.type === 'any' ? 'required' : choice.type
  if (choice.name === undefined) throw badField('tool_choice.name', 'is required')
  return { type: 'function', function: { name: choice.name } }
}

/** A message with tool results becomes several chat messages, the results first. */
function messagesOf (
  role: string, content: string | Block[], path: string, vision: VisionSupport
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
      case 'tool_use':
        if (role !== 'assistant') throw badField(`${at}.type`, 'is allowed in assistant messages only')
        calls.push(callOf(block, at))
        break
      case 'thinking': thoughts += stringAt(block, 'thinking', at); break
      case 'redacted_thinking': break
      case 'image': parts.push(imageOf(block, at, vision)); break
      default: parts.push({ type: 'text', text: partText(block, at) })
    }
  }
  if (parts.length === 0 && calls.length === 0) return results
  const whole = parts.length === 0 ? null : textUnlessImages(parts)
  const reasoning = thoughts === '' ? null : thoughts
  return [...results, { role, content: whole, tool_calls: calls, reasoning_content: reasoning }]
}

/** An image as a part of a chat message. Throws `invalid_request`. */
function imageOf (block: Block, path: string, vision: VisionSupport): Fields {
  const { type, media_type: media, data, url } = fieldsOf(block['source'])
  const address = type === 'base64' ? `data:${String(media)};base64,${String(data)}` : url
  return imagePart({ type: 'image_url', image_url: { url: address } }, path, vision, 'source')
}

function resultOf (block: Block, path: string): InputMessage {
  const content = block['content'] ?? ''
  if (typeof content !== 'string' && !Array.isArray(content)) {
    throw badField(`${path}.content`, 'must be a string or a list')
  }
  const text = textOf(content, `${path}.content`)
  return {
    role: 'tool',
    tool_call_id: stringAt(block, 'tool_use_id', path),
    // Templates have no error flag for tool results, so the text carries it.
    content: block['is_error'] === true ? `Error: ${text ?? ''}` : text
  }
}

const callOf = (block: Block, path: string): object => functionCall(
  stringAt(block, 'id', path), stringAt(block, 'name', path), JSON.stringify(block['input'] ?? {}))

type Value = { type: string } & Record<string, unknown>

const STOP_REASONS: Readonly<Record<Finish, string>> = {
  stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use'
}

const framing: Framing = {
  contentType: 'text/event-stream',
  begin: () => ': keep-alive\n\n',
  value: namedEvent,
  end: () => '',
  beat: 'event: ping\ndata: {"type":"ping"}\n\n',
  failed: (error) => `event: error\ndata: ${JSON.stringify(anthropicFailure(error))}\n\n`
}

/** Why an answer ended, with the stop text if a stop sequence of the request ended it. */
const endOf = ({ finish, stop }: Pick<EndPiece, 'finish' | 'stop'>): object =>
  stop !== null && finish === 'stop'
    ? { ...NO_DETAILS, stop_reason: 'stop_sequence', stop_sequence: stop }
    : { ...NO_DETAILS, stop_reason: STOP_REASONS[finish], stop_sequence: null }

/** Fields that Anthropic's schema of an answer requires; svc has no containers and no refusals. */
const NO_DETAILS = { container: null, stop_details: null }

type Counts = Pick<Totals, 'promptTokens' | 'cachedTokens' | 'completionTokens'>

/** The usage that ends a stream. */
const countsOf = ({ promptTokens, cachedTokens, completionTokens }: Counts): object => ({
  input_tokens: promptTokens - cachedTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cachedTokens,
  output_tokens: completionTokens,
  output_tokens_details: null,
  server_tool_use: null
})

const usageOf = (counts: Counts): object => ({
  ...countsOf(counts), cache_creation: null, inference_geo: null, service_tier: 'standard', speed: null
})

const toolBlock = (id: string | undefined, name: string | undefined, input: object): object =>
  ({ type: 'tool_use', id, name, input, caller: { type: 'direct' } })

const messageOf = ({ id, model }: AnswerMetadata, more: object): object =>
  ({ id: `msg_${id}`, type: 'message', role: 'assistant', model, diagnostics: null, ...more })

/** Formats an answer as stream events. A block closes before the next one opens. */
class MessageFormatter implements Formatter {
  readonly #facts: AnswerMetadata
  #index = -1
  /** Type of the open block, or the index of its tool call. */
  #open: string | number | null = null
  #end = endOf({ finish: 'stop', stop: null })

  constructor (facts: AnswerMetadata) { this.#facts = facts }

  begin (promptTokens: number): Value[] {
    const usage = usageOf({ promptTokens, cachedTokens: 0, completionTokens: 0 })
    const message = messageOf(this.#facts,
      { content: [], ...NO_DETAILS, stop_reason: null, stop_sequence: null, usage })
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
      values.push(...this.#opened(index, toolBlock(id, name, {})))
      values.push(this.#delta({ type: 'input_json_delta', partial_json: json }))
    }
    return values
  }

  end (totals: Totals): Value[] {
    return [{ type: 'message_delta', delta: this.#end, usage: countsOf(totals) }, { type: 'message_stop' }]
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

/** The whole answer. The input of a truncated tool call is `{}`. */
function wholeMessage ({ only: choice, totals }: Collector, facts: AnswerMetadata): object {
  const content: object[] = []
  if (choice.reasoning !== '') content.push({ type: 'thinking', thinking: choice.reasoning, signature: '' })
  if (choice.content !== '') content.push({ type: 'text', text: choice.content })
  for (const { id, name, arguments: json } of choice.calls) {
    content.push(toolBlock(id, name, fieldsOf(parsed(json))))
  }
  return messageOf(facts, { content, ...endOf(choice), usage: usageOf(totals) })
}

const format: AnswerFormat = {
  framing, formatter: (facts) => new MessageFormatter(facts), whole: wholeMessage
}
