/** Answers of POST /v1/messages. Pure. */
import { anthropicFailure } from './errors.js'
import { namedEvent } from './answer.js'
import type { AnswerFormat, Facts, Framing, Formatter } from './answer.js'
import type { Collector, EndPiece, Finish, TextPiece, Totals } from './pieces.js'

type Value = { type: string } & Record<string, unknown>

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
const endOf = (finish: Finish, stop: string | null): object => stop !== null && finish === 'stop'
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
  #end = endOf('stop', null)

  constructor (facts: Facts) { this.#facts = facts }

  begin (promptTokens: number): Value[] {
    const usage = { input_tokens: promptTokens, output_tokens: 0 }
    const message = messageOf(this.#facts, { content: [], stop_reason: null, stop_sequence: null, usage })
    return [{ type: 'message_start', message }, { type: 'ping' }]
  }

  piece (piece: TextPiece | EndPiece): Value[] {
    if (piece.kind === 'end') {
      this.#end = endOf(piece.finish, piece.stop)
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

/** The whole answer. */
function wholeMessage (answer: Collector, facts: Facts): object {
  const [choice] = answer.choices
  const content: object[] = []
  if (choice !== undefined && choice.reasoning !== '') {
    content.push({ type: 'thinking', thinking: choice.reasoning, signature: '' })
  }
  if (choice !== undefined && choice.content !== '') content.push({ type: 'text', text: choice.content })
  for (const { id, name, arguments: text } of choice?.calls ?? []) {
    content.push({ type: 'tool_use', id, name, input: argumentsOf(text) })
  }
  return messageOf(facts, {
    content, ...endOf(choice?.finish ?? 'stop', choice?.stop ?? null), usage: usageOf(answer.totals)
  })
}

/** The format of POST /v1/messages. */
export const messageFormat: AnswerFormat = {
  framing, formatter: (facts) => new MessageFormatter(facts), whole: wholeMessage
}

/** The arguments of a call as an object; a call that was cut off has none that can be read. */
export function argumentsOf (text: string): object {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
