/** Answers of POST /v1/chat/completions and POST /v1/completions. Pure. */
import type { TokenReport } from '../engine/mailbox.js'
import type { ErrorBody } from '../../../kernel/index.js'
import type { AnswerFormat, Facts, Formatter, Framing } from './answer.js'
import type { Collector, EndPiece, TextPiece, Totals, Whole, WholeCall } from './pieces.js'

/** `usage` of an answer. */
function usageOf ({ promptTokens, completionTokens, cachedTokens }: Totals): Record<string, unknown> {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens }
  }
}

/** `logprobs` of tokens, as the chat route shows them; null for none. */
function chatLogprobs (tokens: readonly TokenReport[]): object | null {
  if (tokens.length === 0) return null
  const content = tokens.map(({ text, logprob, top }) => ({
    ...tokenLogprob(text, logprob),
    top_logprobs: top.map((each) => tokenLogprob(each.text, each.logprob))
  }))
  return { content, refusal: null }
}

const tokenLogprob = (token: string, logprob: number | null) => ({
  token, logprob,
  // A part of a character has no text of its own, so its bytes are not known here.
  bytes: token.includes('\ufffd') ? null : [...Buffer.from(token)]
})

const comment = (text: string): string => `: ${text}\n\n`
/** One server-sent event. */
const dataEvent = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** Server-sent events with svc's comments, ended by `[DONE]`. */
const openAiFraming: Framing = {
  contentType: 'text/event-stream',
  begin: (commandId) => comment('keep-alive') + comment(`command_id ${commandId}`),
  value: dataEvent,
  end: (totals) => comment(`generation_stats ${JSON.stringify(statsOf(totals))}`) + 'data: [DONE]\n\n',
  beat: comment('keep-alive'),
  failed: (error: ErrorBody) => dataEvent(error)
}

/** Figures of an answer: tokens per second and bytes. */
function statsOf (totals: Totals): Record<string, unknown> {
  return {
    prompt_tps: totals.promptRate,
    generation_tps: totals.generationRate,
    prompt_tokens: totals.promptTokens,
    generation_tokens: totals.completionTokens,
    peak_memory_usage: { inBytes: totals.peakMemoryBytes }
  }
}

/** How many answers there are, and whether their usage comes in a chunk of its own. */
export interface ChunkOptions { n: number, includeUsage: boolean }

/** The chunks of a stream. The end of the last choice waits for the usage. */
abstract class ChunkFormatter implements Formatter {
  protected readonly options: ChunkOptions
  readonly #facts: Facts
  #last: object | null = null

  constructor (facts: Facts, options: ChunkOptions) {
    this.#facts = facts
    this.options = options
  }

  begin (): object[] { return [] }

  piece (piece: TextPiece | EndPiece): object[] {
    if (piece.kind === 'text') return [this.text(piece)]
    const before = this.#last
    this.#last = this.ended(piece)
    return before === null ? [] : [before]
  }

  end (totals: Totals): object[] {
    const usage = usageOf(totals)
    const last = this.#last === null ? [] : [this.#last]
    return this.options.includeUsage
      ? [...last, { ...this.chunk([]), usage }]
      : last.map((chunk) => ({ ...chunk, usage }))
  }

  protected abstract text (piece: TextPiece): object
  protected abstract ended (piece: EndPiece): object
  /** What a chunk says of itself beside its id, time and model. */
  protected abstract readonly kind: { object: string, system_fingerprint?: null }

  protected chunk (choices: object[]): object {
    const { id, created, model } = this.#facts
    const { object, ...more } = this.kind
    const usage = this.options.includeUsage ? { usage: null } : {}
    return { id, object, created, model, ...more, choices, ...usage }
  }
}

/** The chunks of POST /v1/chat/completions. */
export class ChatFormatter extends ChunkFormatter {
  protected readonly kind = { object: 'chat.completion.chunk', system_fingerprint: null }

  override begin (): object[] {
    return Array.from({ length: this.options.n }, (_, index) =>
      this.#choice(index, { role: 'assistant', content: '' }))
  }

  protected text ({ index, content, reasoning, calls, tokens }: TextPiece): object {
    const delta: Record<string, unknown> = {}
    if (reasoning !== '') delta['reasoning_content'] = reasoning
    if (content !== '') delta['content'] = content
    if (calls.length > 0) delta['tool_calls'] = calls.map(callDelta)
    return this.#choice(index, delta, chatLogprobs(tokens))
  }

  protected ended ({ index, finish }: EndPiece): object { return this.#choice(index, {}, null, finish) }

  #choice (
    index: number, delta: object, logprobs: object | null = null, finish: string | null = null
  ): object {
    return this.chunk([{ index, delta, logprobs, finish_reason: finish }])
  }
}

function callDelta (
  { index, id, name, arguments: text }: TextPiece['calls'][number]
): Record<string, unknown> {
  if (id === undefined) return { index, function: { arguments: text ?? '' } }
  return { index, id, type: 'function', function: { name, arguments: text ?? '' } }
}

/** The whole answer of POST /v1/chat/completions. */
function chatCompletion (answer: Collector, { id, created, model }: Facts): object {
  return {
    id, object: 'chat.completion', created, model, system_fingerprint: null,
    choices: answer.choices.map(wholeChoice),
    usage: usageOf(answer.totals)
  }
}

function wholeChoice ({ index, content, reasoning, calls, tokens, finish }: Whole): object {
  const message = {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...reasoning === '' ? {} : { reasoning_content: reasoning },
    ...calls.length === 0 ? {} : { tool_calls: calls.map(wholeCall) }
  }
  return { index, message, logprobs: chatLogprobs(tokens), finish_reason: finish }
}

const wholeCall = ({ id, name, arguments: text }: WholeCall): object =>
  ({ id, type: 'function', function: { name, arguments: text } })

/** `logprobs` of a text completion: lists beside each other. `offset`: where the first token's text lies. */
function completionLogprobs (tokens: readonly TokenReport[], offset = 0): object | null {
  if (tokens.length === 0) return null
  let at = offset
  const offsets = tokens.map(({ text }) => {
    const from = at
    at += text.length
    return from
  })
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top }) =>
      Object.fromEntries(top.map(({ text, logprob }) => [text, logprob]))),
    text_offset: offsets
  }
}

/** The chunks of POST /v1/completions. */
class CompletionFormatter extends ChunkFormatter {
  protected readonly kind = { object: 'text_completion' }
  /** Characters so far, by choice. */
  readonly #offsets = new Map<number, number>()

  protected text ({ index, content, tokens }: TextPiece): object {
    const offset = this.#offsets.get(index) ?? 0
    this.#offsets.set(index, offset + tokens.reduce((sum, { text }) => sum + text.length, 0))
    return this.#choice(index, content, completionLogprobs(tokens, offset))
  }

  protected ended ({ index, finish }: EndPiece): object { return this.#choice(index, '', null, finish) }

  #choice (index: number, text: string, logprobs: object | null, finish: string | null = null): object {
    return this.chunk([{ text, index, logprobs, finish_reason: finish }])
  }
}

/** The whole answer of POST /v1/completions. */
function textCompletion (answer: Collector, { id, created, model }: Facts): object {
  const choices = answer.choices.map(({ index, content, tokens, finish }) =>
    ({ text: content, index, logprobs: completionLogprobs(tokens), finish_reason: finish }))
  return { id, object: 'text_completion', created, model, choices, usage: usageOf(answer.totals) }
}

/** The format of POST /v1/chat/completions. */
export const chatFormat = (options: ChunkOptions): AnswerFormat => ({
  framing: openAiFraming, formatter: (facts) => new ChatFormatter(facts, options), whole: chatCompletion
})

/** The format of POST /v1/completions. */
export const completionFormat = (options: ChunkOptions): AnswerFormat => ({
  framing: openAiFraming, formatter: (facts) => new CompletionFormatter(facts, options), whole: textCompletion
})
