/** Converts events of OpenAI's chat API, with the additions of llama.cpp's server, to chunks. Pure. */
import type { SpanSink } from '../../../kernel/api/engine.js'
import type { AnswerChunk, Choice, Finish, NamedToken, TokenReport, Usage } from '../language/chunks.js'
import { AnswerSpans } from '../language/spans.js'
import { fieldsOf, idsOf, listOf, numberOf, textOf, type Fields } from '../language/json.js'

const MIN_LOGPROB = -9_999

/** A rate in tokens per second; null if the server did not measure a rate. */
const rate = (value: unknown): number | null => {
  const number = numberOf(value)
  return number === undefined || number <= 0 ? null : number
}

const tokenOf = (token: Fields): NamedToken => ({
  token: textOf(token['token']),
  logprob: Math.max(MIN_LOGPROB, numberOf(token['logprob']) ?? MIN_LOGPROB),
  bytes: idsOf(token['bytes']) ?? null
})

export const reportsOf = (tokens: unknown, tops: number): TokenReport[] => listOf(tokens).map((token) =>
  ({ ...tokenOf(token), top_logprobs: listOf(token['top_logprobs']).slice(0, tops).map(tokenOf) }))

/** The chunk that announces an accepted prompt; [] if the event has no prompt progress. */
export function admittedOf (event: Fields): AnswerChunk[] {
  const tokens = numberOf(fieldsOf(event['prompt_progress'])['total'])
  return tokens === undefined ? [] : [{ choices: [], usage: { prompt_tokens: tokens } }]
}

/** The chunk for an event's content; [] if the event has none. */
export function newsOf (index: number, news: Omit<Choice, 'index'>, tokens: TokenReport[]): AnswerChunk[] {
  const logprobs = tokens.length === 0 ? {} : { logprobs: { content: tokens } }
  const hasNews = tokens.length > 0 || Object.keys(news.delta ?? {}).length > 0 || (news.text ?? '') !== ''
  return hasNews ? [{ choices: [{ index, ...news, ...logprobs }] }] : []
}

interface End { finish: Finish, stop: string | null, usage: Fields, timings: Fields, peakBytes: number }

export function endOf (choice: Choice, { finish, stop, usage, timings, peakBytes }: End): AnswerChunk {
  return {
    choices: [{ ...choice, finish_reason: finish, stop_text: stop }],
    usage: usageOf(usage, timings),
    timings: {
      prompt_per_second: rate(timings['prompt_per_second']),
      predicted_per_second: rate(timings['predicted_per_second']), peak_memory_bytes: peakBytes
    }
  }
}

/** A number of tokens; undefined for anything else, since it may come from a foreign server. */
const tokensOf = (value: unknown): number | undefined =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? value as number : undefined

function usageOf (usage: Fields, timings: Fields): Usage {
  const worked = tokensOf(timings['prompt_n']) ?? 0
  const details = fieldsOf(usage['prompt_tokens_details'])
  const kept = tokensOf(timings['cache_n']) ?? tokensOf(details['cached_tokens'])
  const prompt = tokensOf(usage['prompt_tokens']) ?? worked + (kept ?? 0)
  return {
    prompt_tokens: prompt,
    completion_tokens: tokensOf(usage['completion_tokens']) ?? tokensOf(timings['predicted_n']) ?? 0,
    prompt_tokens_details: { cached_tokens: kept ?? (worked > 0 ? Math.max(0, prompt - worked) : 0) }
  }
}

/** Reads the events of one answer. */
export interface AnswerReader {
  read (event: Fields): AnswerChunk[]
  /** The answer's last chunk; null if the answer is incomplete. `peakBytes`: the server's peak memory. */
  end (peakBytes: number): AnswerChunk | null
}

/** Creates the reader of answer `index`; `tops` is the number of alternatives to report with each token. */
export type ReaderFactory = (index: number, tops: number) => AnswerReader

const FINISHES: Readonly<Record<string, Finish>> = {
  stop: 'stop', length: 'length', tool_calls: 'tool_calls'
}

/** Reads an answer from `/v1/chat/completions`; passes deltas through without empty fields. */
export const chatReader: ReaderFactory = (index, tops) => {
  let finish: Finish | null = null
  let usage: Fields = {}
  let timings: Fields = {}
  return {
    read (event) {
      usage = { ...usage, ...fieldsOf(event['usage']) }
      timings = { ...timings, ...fieldsOf(event['timings']) }
      const choice = listOf(event['choices'])[0] ?? {}
      const tokens = reportsOf(fieldsOf(choice['logprobs'])['content'], tops)
      const why = textOf(choice['finish_reason'])
      if (why !== '') finish = FINISHES[why] ?? 'stop'
      return [...admittedOf(event), ...newsOf(index, { delta: toDelta(fieldsOf(choice['delta'])) }, tokens)]
    },
    // `stop` is null, because the chat route does not report which stop string ended the answer.
    end: (peakBytes) => finish === null ? null
      : endOf({ index, delta: {} }, { finish, stop: null, usage, timings, peakBytes })
  }
}

function toDelta (delta: Fields): NonNullable<Choice['delta']> {
  const [content, reasoning] = [textOf(delta['content']), textOf(delta['reasoning_content'])]
  const calls = listOf(delta['tool_calls']).map((call) => {
    const { name, arguments: text } = fieldsOf(call['function'])
    return {
      index: numberOf(call['index']) ?? 0,
      ...textOf(call['id']) === '' ? {} : { id: textOf(call['id']) },
      function: { ...name == null ? {} : { name: textOf(name) }, arguments: textOf(text) }
    }
  })
  return {
    ...content === '' ? {} : { content }, ...reasoning === '' ? {} : { reasoning_content: reasoning },
    ...calls.length === 0 ? {} : { tool_calls: calls }
  }
}

/**
 * Records trace spans for one answer, counting each chunk with content as a token. If the server does not
 * report prompt progress, the time in the server's queue counts as prompt work.
 */
export class ChunkSpans {
  private readonly spans: AnswerSpans
  private promptTokens = 0
  private written = 0

  constructor (trace: SpanSink, index: number) { this.spans = new AnswerSpans(trace, index) }

  saw ({ choices: [choice], usage }: AnswerChunk): void {
    if (choice === undefined) {
      if (this.promptTokens === 0) this.spans.started()
      this.promptTokens = usage?.prompt_tokens ?? 0
    } else if (choice.finish_reason == null) {
      this.spans.token(++this.written, this.promptTokens)
    } else {
      const { prompt_tokens: input = 0, completion_tokens: output = 0, prompt_tokens_details: details } =
        usage ?? {}
      const cached = details?.cached_tokens ?? 0
      this.spans.ended({ input_tokens: input, output_tokens: output, cached_tokens: cached })
    }
  }
}
