/** Response format for OpenAI's Responses API. */
import { namedEvent } from './answer.js'
import { openAiFailure } from '../../staging/service.js'
import type { AnswerFormat, AnswerMetadata, Formatter, Framing } from './types.js'
import type { Collector, EndPiece, Finish, TextPiece, Totals } from './pieces.js'
import type { ResponsesBody } from './responses-body.js'

type Value = { type: string } & Record<string, unknown>

/** Numbers the events of one stream. */
type Sequence = () => number

/** Named events; a failure is an `error` event with the error body. */
const framingOf = (sequence: Sequence): Framing => ({
  contentType: 'text/event-stream',
  begin: (commandId) => `: keep-alive\n\n: command_id ${commandId}\n\n`,
  value: namedEvent,
  end: () => '',
  beat: ': keep-alive\n\n',
  failed: (body) => {
    const failure = openAiFailure(body) as { error: { code: string, message: string, param: string | null } }
    const { code, message, param } = failure.error
    return namedEvent({ type: 'error', sequence_number: sequence(), code, message, param, ...failure })
  }
})

/** An output item in progress; `text` grows with each delta. */
interface OutputItem {
  kind: 'reasoning' | 'message' | 'call', id: string, text: string, callId: string, name: string
}

/** Prefixes of the event names, by item kind. */
const EVENTS = {
  reasoning: 'response.reasoning_text',
  message: 'response.output_text',
  call: 'response.function_call_arguments'
} as const

/** The only content part of a message or reasoning item; tool calls have no content parts. */
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

/** The events of a stream. An item is complete before the next one begins. */
class ResponseFormatter implements Formatter {
  readonly #facts: AnswerMetadata
  readonly #body: ResponsesBody
  readonly #sequence: Sequence
  readonly #done: object[] = []
  #open: OutputItem | null = null
  /** Index of the current tool call in the answer. */
  #call = -1
  #finish: Finish = 'stop'

  constructor (facts: AnswerMetadata, body: ResponsesBody, sequence: Sequence) {
    this.#facts = facts
    this.#body = body
    this.#sequence = sequence
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
    const content = kind === 'call' ? { arguments: text, name } : { text }
    const logprobs = kind === 'message' ? { logprobs: [] } : {}
    const values = [this.#event(`${EVENTS[kind]}.done`, { ...place, ...content, ...logprobs })]
    if (kind !== 'call') {
      values.push(this.#event('response.content_part.done', { ...place, part: partOf(kind, text) }))
    }
    const value = itemValue(item, status)
    values.push(this.#event('response.output_item.done', { output_index: this.#done.length, item: value }))
    this.#done.push(value)
    this.#open = null
    return values
  }

  #place (): object {
    const place = { item_id: this.#open?.id, output_index: this.#done.length }
    return this.#open?.kind === 'call' ? place : { ...place, content_index: 0 }
  }

  #event (type: string, more: object): Value { return { type, sequence_number: this.#sequence(), ...more } }

  #response (status: string, totals: Totals | null): object {
    const { id, created, model } = this.#facts
    const { instructions, metadata, max_output_tokens: most, parallel_tool_calls: parallel } = this.#body
    const completed = created + Math.round(this.#facts.elapsedMs() / 1000)
    return {
      id: `resp_${id}`, object: 'response', created_at: created, status, background: false, error: null,
      completed_at: status === 'completed' ? completed : null,
      incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
      instructions: instructions ?? null, max_output_tokens: most ?? null, model, output: [...this.#done],
      parallel_tool_calls: parallel ?? true, store: false, previous_response_id: null,
      reasoning: { effort: this.#body.reasoning?.effort ?? null, summary: null },
      temperature: this.#body.temperature ?? null, top_p: this.#body.top_p ?? null,
      text: { format: this.#body.text?.format ?? { type: 'text' } }, truncation: 'disabled',
      tool_choice: this.#body.tool_choice ?? 'auto', tools: (this.#body.tools ?? []).map(toolOf),
      metadata: metadata ?? {},
      presence_penalty: 0, frequency_penalty: 0, top_logprobs: 0, max_tool_calls: null,
      service_tier: 'default', prompt_cache_key: null, safety_identifier: null,
      usage: totals === null ? null : usageOf(totals)
    }
  }
}

const toolOf = (
  { type, name, description, parameters, strict }: NonNullable<ResponsesBody['tools']>[number]
): object => ({
  type, name, description: description ?? null, parameters: parameters ?? null, strict: strict ?? null
})

const usageOf = ({ promptTokens, completionTokens, cachedTokens }: Totals): object => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
  output_tokens: completionTokens,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: promptTokens + completionTokens
})

/** The answer without streaming: the response object that ends the equivalent stream. */
function wholeResponse (
  { only: choice, totals }: Collector, facts: AnswerMetadata, body: ResponsesBody
): object {
  const formatter = new ResponseFormatter(facts, body, () => 0)
  const calls = choice.calls.map((call, index) => ({ index, ...call }))
  formatter.piece({ ...choice, kind: 'text', calls })
  formatter.piece({ kind: 'end', index: 0, finish: choice.finish } as EndPiece)
  return formatter.end(totals)[0]?.['response'] as object
}

/** The format of POST /v1/responses. */
export function formatOf (body: ResponsesBody): AnswerFormat {
  let next = 0
  const sequence = (): number => next++
  return {
    framing: framingOf(sequence), formatter: (facts) => new ResponseFormatter(facts, body, sequence),
    whole: (answer, facts) => wholeResponse(answer, facts, body)
  }
}
