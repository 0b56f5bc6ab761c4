/** From the events of llama.cpp's server to the chunks of an answer. Pure. */
import type { SpanSink } from '../../../kernel/api/engine.js'
import { AnswerSpans, type Delta, type Done, type NamedToken, type TokenReport } from '../engine/pieces.js'
import { fieldsOf, idsOf, listOf, numberOf, present, textOf, type Fields } from '../json.js'

/** The prompt fits and is worked on. Comes first, from a server that reports it. */
export interface Admitted { kind: 'admitted', prompt_tokens: number, tool_format: 'hermes' }
export type Piece = Admitted | Delta | Done

const MIN_LOGPROB = -9_999
/** A token whose id an older server does not tell. */
const UNKNOWN_ID = -1

/** Tokens per second; null where nothing was measured. */
const rate = (value: unknown): number | null => {
  const number = numberOf(value)
  return number === undefined || number <= 0 ? null : number
}

const tokenOf = (token: Fields): NamedToken & { logprob: number } => ({
  id: numberOf(token['id']) ?? UNKNOWN_ID,
  text: textOf(token['token']),
  ...present({ bytes: idsOf(token['bytes']) }),
  logprob: Math.max(MIN_LOGPROB, numberOf(token['logprob']) ?? MIN_LOGPROB)
})

const reportsOf = (tokens: unknown, tops: number): TokenReport[] => listOf(tokens).map((token) =>
  ({ ...tokenOf(token), top: listOf(token['top_logprobs']).slice(0, tops).map(tokenOf) }))

function admittedOf (event: Fields): Admitted[] {
  const tokens = numberOf(fieldsOf(event['prompt_progress'])['total'])
  return tokens === undefined ? [] : [{ kind: 'admitted', prompt_tokens: tokens, tool_format: 'hermes' }]
}

function deltaOf (index: number, text: string, tokens: TokenReport[], plain = false): Delta[] {
  if (text === '' && tokens.length === 0) return []
  const more = { ...tokens.length === 0 ? {} : { tokens }, ...plain ? { plain } : {} }
  return [{ kind: 'delta', index, text, ...more }]
}

/** What the last events of an answer say. */
interface End {
  reason: Done['finish_reason'], stop: string | null, usage: Fields, timings: Fields, peakBytes: number
}

function doneOf (index: number, { reason, stop, usage, timings, peakBytes }: End): Done {
  const worked = numberOf(timings['prompt_n']) ?? 0
  const details = fieldsOf(usage['prompt_tokens_details'])
  const kept = numberOf(timings['cache_n']) ?? numberOf(details['cached_tokens'])
  const prompt = numberOf(usage['prompt_tokens']) ?? worked + (kept ?? 0)
  return {
    kind: 'done',
    index,
    finish_reason: reason,
    stop_text: stop,
    usage: {
      prompt_tokens: prompt,
      completion_tokens: numberOf(usage['completion_tokens']) ?? numberOf(timings['predicted_n']) ?? 0,
      cached_tokens: kept ?? (worked > 0 ? Math.max(0, prompt - worked) : 0)
    },
    stats: {
      prompt_tps: rate(timings['prompt_per_second']),
      generation_tps: rate(timings['predicted_per_second']),
      peak_memory_bytes: peakBytes
    }
  }
}

/** Reads the events of one answer. */
export abstract class AnswerReader {
  protected readonly index: number
  protected readonly tops: number

  /** `index` is the number of the answer; so many `tops` are told of each token beside the chosen one. */
  constructor (index: number, tops: number) {
    this.index = index
    this.tops = tops
  }

  abstract read (event: Fields): Piece[]
  /** The last pieces; null where the answer is not complete. `peakBytes`: the server's highest memory. */
  abstract end (peakBytes: number): Piece[] | null
}

/**
 * An answer of `/v1/chat/completions`. The server has taken reasoning and tool calls out of the text; they
 * are put back with the marks that every reader of a model's text here knows, whatever the model's own are.
 */
export class ChatReader extends AnswerReader {
  private reasoning = false
  /** The number of the call that is open, and whether its arguments have begun. */
  private call: { number: number, begun: boolean } | null = null
  private reason: Done['finish_reason'] | null = null
  private usage: Fields = {}
  private timings: Fields = {}

  read (event: Fields): Piece[] {
    this.usage = { ...this.usage, ...fieldsOf(event['usage']) }
    this.timings = { ...this.timings, ...fieldsOf(event['timings']) }
    const choice = listOf(event['choices'])[0] ?? {}
    const tokens = reportsOf(fieldsOf(choice['logprobs'])['content'], this.tops)
    const pieces = [...admittedOf(event), ...this.deltas(fieldsOf(choice['delta']), tokens)]
    const finish = textOf(choice['finish_reason'])
    // Calls are read from the text again, and with them why it ended.
    if (finish !== '') this.reason = finish === 'length' ? 'length' : 'stop'
    return pieces
  }

  end (peakBytes: number): Piece[] | null {
    const { index, reason, usage, timings } = this
    if (reason === null) return null
    // An answer that was cut ends in the middle of what was open.
    const rest = reason === 'stop' ? this.closed() : ''
    // The server does not tell here which stop text it met.
    const end: End = { reason, stop: null, usage, timings, peakBytes }
    return [...deltaOf(index, rest, []), doneOf(index, end)]
  }

  private deltas (delta: Fields, tokens: TokenReport[]): Delta[] {
    const { index } = this
    const content = textOf(delta['content'])
    const before = this.thought(textOf(delta['reasoning_content'])) + (content === '' ? '' : this.closed())
    const calls = listOf(delta['tool_calls']).map((call) => this.called(call)).join('')
    // Content may contain marks, and is not parsed again.
    return content === ''
      ? deltaOf(index, before + calls, tokens)
      : [
          ...deltaOf(index, before, []), ...deltaOf(index, content, tokens, true),
          ...deltaOf(index, calls, [])
        ]
  }

  private thought (text: string): string {
    if (text === '') return ''
    const before = this.reasoning ? '' : `${this.closed()}<think>`
    this.reasoning = true
    return before + text
  }

  private called (call: Fields): string {
    const number = numberOf(call['index']) ?? 0
    const { name, arguments: given } = fieldsOf(call['function'])
    let text = ''
    if (this.call?.number !== number) {
      text = `${this.closed()}<tool_call>{"name": ${JSON.stringify(textOf(name))}, "arguments": `
      this.call = { number, begun: false }
    }
    const piece = textOf(given)
    this.call.begun ||= piece.trim() !== ''
    return text + piece
  }

  /** The marks that end what is open. */
  private closed (): string {
    const { call } = this
    const marks = (this.reasoning ? '</think>' : '') +
      (call === null ? '' : `${call.begun ? '' : '{}'}}</tool_call>`)
    this.reasoning = false
    this.call = null
    return marks
  }
}

/** An answer of `/completion`. */
export class CompletionReader extends AnswerReader {
  private last: Fields | null = null

  read (event: Fields): Piece[] {
    if (event['stop'] === true) this.last = event
    const tokens = reportsOf(event['completion_probabilities'], this.tops)
    return [...admittedOf(event), ...deltaOf(this.index, textOf(event['content']), tokens)]
  }

  end (peakBytes: number): Piece[] | null {
    const { last } = this
    if (last === null) return null
    const cut = last['stop_type'] === 'limit' || last['stopped_limit'] === true || last['truncated'] === true
    const usage = { prompt_tokens: last['tokens_evaluated'], completion_tokens: last['tokens_predicted'] }
    const reason = cut ? 'length' : 'stop'
    const stop = textOf(last['stopping_word']) || null
    const end: End = { reason, stop, usage, timings: fieldsOf(last['timings']), peakBytes }
    return [doneOf(this.index, end)]
  }
}

/**
 * The spans of one traced answer, as its pieces arrive: a piece of text stands for a token. A server that
 * does not report when it takes up a prompt has no wait; it counts as work on the prompt then.
 */
export class PieceSpans {
  private readonly spans: AnswerSpans
  private promptTokens = 0
  private written = 0

  constructor (trace: SpanSink, index: number) { this.spans = new AnswerSpans(trace, index) }

  saw (piece: Piece): void {
    if (piece.kind === 'admitted') {
      if (this.promptTokens === 0) this.spans.started()
      this.promptTokens = piece.prompt_tokens
    } else if (piece.kind === 'delta') {
      this.spans.token(++this.written, this.promptTokens)
    } else {
      const { prompt_tokens: input, completion_tokens: output, cached_tokens: cached } = piece.usage
      this.spans.ended({ input_tokens: input, output_tokens: output, cached_tokens: cached })
    }
  }
}
