/** OpenAI's API: POST /v1/chat/completions and /v1/completions. */
import { answer } from './answer.js'
import { openAiFailure } from '../../staging/service.js'
import { chatTask, completionTask, functionCall } from './request-to-task.js'
import type { NamedToken, TokenReport } from '../../runners/language/chunks.js'
import type { AnswerFormat, AnswerMetadata, Formatter, Framing, Handler } from './types.js'
import type { EndPiece, TextPiece, Totals, CompleteChoice } from './pieces.js'
import type { chatBody, CompletionBody, completionBody } from './schema.js'

export const chat: Handler<typeof chatBody> = async (parts, request) => {
  const { body } = request
  await answer(parts, request, chatTask(body, parts), body.stream === true, chatFormat(optionsOf(body)))
}

export const completion: Handler<typeof completionBody> = async (parts, request) => {
  const { body } = request
  const format = completionFormat(optionsOf(body))
  await answer(parts, request, completionTask(body, parts), body.stream === true, format)
}

const optionsOf = (
  { n, stream_options: options }: Pick<CompletionBody, 'n' | 'stream_options'>
): ChunkOptions => ({ n: n ?? 1, includeUsage: options?.include_usage === true })

function usageOf ({ promptTokens, completionTokens, cachedTokens }: Totals): Record<string, unknown> {
  return {
    prompt_tokens: promptTokens, completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens, prompt_tokens_details: { cached_tokens: cachedTokens }
  }
}

/** The `logprobs` field of a chat choice; null if there are no token reports. */
const chatLogprobs = (tokens: readonly TokenReport[]): object | null =>
  tokens.length === 0 ? null : { content: tokens, refusal: null }

const comment = (text: string): string => `: ${text}\n\n`
const dataEvent = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** Server-sent events that end with `[DONE]`; comments carry the command id and the statistics. */
const openAiFraming: Framing = {
  contentType: 'text/event-stream',
  begin: (commandId) => comment('keep-alive') + comment(`command_id ${commandId}`),
  value: dataEvent,
  end: (totals) => comment(`generation_stats ${JSON.stringify(statsOf(totals))}`) + 'data: [DONE]\n\n',
  beat: comment('keep-alive'),
  failed: (error) => dataEvent(openAiFailure(error))
}

/** Statistics with rates in tokens per second and memory in bytes. */
function statsOf (totals: Totals): Record<string, unknown> {
  return {
    prompt_tps: totals.promptRate, generation_tps: totals.generationRate,
    prompt_tokens: totals.promptTokens, generation_tokens: totals.completionTokens,
    peak_memory_usage: { inBytes: totals.peakMemoryBytes }
  }
}

/** `includeUsage`: the stream ends with a separate chunk for the usage. */
export interface ChunkOptions { n: number, includeUsage: boolean }

interface ChunkShape {
  kind: { object: string }
  /** Builds the opening delta of a choice, such as its role; absent if the route sends none. */
  first?: (index: number) => object
  text (piece: TextPiece): object
  ended (piece: EndPiece): object
}

const chunkOf =
  ({ id, created, model }: AnswerMetadata, { object, ...more }: ChunkShape['kind'], choices: object[]) =>
    ({ id, object, created, model, ...more, choices })

/** Formats the chunks of a stream. The last choice's final chunk waits for the usage. */
function chunkFormatter (
  facts: AnswerMetadata, { n, includeUsage }: ChunkOptions, { kind, first, text, ended }: ChunkShape
): Formatter {
  let last: object[] = []
  const chunk = (...choices: object[]): object =>
    ({ ...chunkOf(facts, kind, choices), ...includeUsage ? { usage: null } : {} })
  return {
    begin: () => first === undefined ? [] : Array.from({ length: n }, (_, index) => chunk(first(index))),
    piece (piece) {
      if (piece.kind === 'text') return [chunk(text(piece))]
      const before = last
      last = [chunk(ended(piece))]
      return before
    },
    end (totals) {
      const usage = usageOf(totals)
      return includeUsage ? [...last, { ...chunk(), usage }] : last.map((value) => ({ ...value, usage }))
    }
  }
}

const chatChoice = (
  index: number, delta: object, logprobs: object | null = null, finish: string | null = null
): object => ({ index, delta, logprobs, finish_reason: finish })

const chatChunks: ChunkShape = {
  kind: { object: 'chat.completion.chunk' },
  first: (index) => chatChoice(index, { role: 'assistant', content: '' }),
  text ({ index, content, reasoning, calls, tokens }) {
    const delta: Record<string, unknown> = {}
    if (reasoning !== '') delta['reasoning_content'] = reasoning
    if (content !== '') delta['content'] = content
    if (calls.length > 0) delta['tool_calls'] = calls.map(callDelta)
    return chatChoice(index, delta, chatLogprobs(tokens))
  },
  ended: ({ index, finish }) => chatChoice(index, {}, null, finish)
}

function callDelta ({ index, id, name, arguments: text = '' }: TextPiece['calls'][number]): object {
  if (id === undefined) return { index, function: { arguments: text } }
  return { index, id, type: 'function', function: { name, arguments: text } }
}

function wholeChoice ({ index, content, reasoning, calls, tokens, finish }: CompleteChoice): object {
  const message = {
    role: 'assistant',
    content: content === '' && calls.length > 0 ? null : content,
    refusal: null,
    ...reasoning === '' ? {} : { reasoning_content: reasoning },
    ...calls.length === 0
      ? {}
      : { tool_calls: calls.map(({ id, name, arguments: text }) => functionCall(id, name, text)) }
  }
  return { index, message, logprobs: chatLogprobs(tokens), finish_reason: finish }
}

/** The format of POST /v1/chat/completions. */
export const chatFormat = (options: ChunkOptions): AnswerFormat => ({
  framing: openAiFraming,
  formatter: (facts) => chunkFormatter(facts, options, chatChunks),
  whole: ({ choices, totals }, facts) => ({
    ...chunkOf(facts, { object: 'chat.completion' }, choices.map(wholeChoice)),
    usage: usageOf(totals)
  })
})

/** A token as text; a partial character as escaped bytes, as OpenAI writes it. */
function writtenToken ({ token, bytes }: NamedToken): string {
  if (bytes === null || !token.includes('\ufffd')) return token
  return `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`
}

/** `logprobs` for a text completion, as parallel lists. `offset`: text offset of the first token. */
function completionLogprobs (tokens: readonly TokenReport[], offset = 0): object | null {
  if (tokens.length === 0) return null
  let at = offset
  const offsets = tokens.map(({ token }) => {
    const from = at
    at += token.length
    return from
  })
  return {
    tokens: tokens.map(writtenToken),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ top_logprobs: top }) =>
      Object.fromEntries(top.map((each) => [writtenToken(each), each.logprob]))),
    text_offset: offsets
  }
}

const textChoice = (
  index: number, text: string, logprobs: object | null = null, finish: string | null = null
): object => ({ text, index, logprobs, finish_reason: finish })

function textChunks (): ChunkShape {
  /** Length of the text sent so far, by choice index. */
  const offsets = new Map<number, number>()
  return {
    kind: { object: 'text_completion' },
    text ({ index, content, tokens }) {
      const offset = offsets.get(index) ?? 0
      offsets.set(index, offset + tokens.reduce((sum, { token }) => sum + token.length, 0))
      return textChoice(index, content, completionLogprobs(tokens, offset))
    },
    ended: ({ index, finish }) => textChoice(index, '', null, finish)
  }
}

/** The format of POST /v1/completions. */
const completionFormat = (options: ChunkOptions): AnswerFormat => ({
  framing: openAiFraming,
  formatter: (facts) => chunkFormatter(facts, options, textChunks()),
  whole: ({ choices, totals }, facts) => ({
    ...chunkOf(facts, textChunks().kind, choices.map(({ index, content, tokens, finish }) =>
      textChoice(index, content, completionLogprobs(tokens), finish))),
    usage: usageOf(totals)
  })
})
