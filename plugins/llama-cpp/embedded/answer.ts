/** Converts one answer's tokens to OpenAI deltas. */
import { randomUUID } from 'node:crypto'
import type { SpanSink } from '../../../kernel/api/engine.js'
import type { AnswerChunk } from '../../runners/language/chunks.js'
import { AnswerSpans } from '../../runners/language/spans.js'
import type { OutputDelta, OutputReader } from '../text/parse/output.js'
import type { TextStream } from '../text/stream.js'
import type { Job } from './decoder.js'
import type { Report, TokenSampler } from './sampler.js'

const KIB = 1024

/** Queue of chunks from the decoder to one reader; unbounded, so that the decoder never waits. */
export class Outbox {
  private readonly pending: AnswerChunk[] = []
  private open: number
  private error: unknown
  private wake = (): void => {}

  constructor (answers: number) { this.open = answers }

  push (chunk: AnswerChunk): void {
    this.pending.push(chunk)
    this.wake()
  }

  end (): void {
    this.open--
    this.wake()
  }

  /** Ends the queue with an error, which the reader gets after the pending chunks. */
  fail (error: unknown): void {
    this.error ??= error
    this.open = 0
    this.wake()
  }

  async * read (): AsyncGenerator<AnswerChunk, void> {
    for (;;) {
      const next = this.pending.shift()
      if (next !== undefined) yield next
      else if (this.error !== undefined) throw this.error
      else if (this.open <= 0) return
      else await new Promise<void>((resolve) => { this.wake = resolve })
    }
  }
}

export interface AnswerParts {
  index: number, prompt: readonly number[]
  /** Limit on the answer's tokens: at least 1, and small enough for prompt and answer to fit the context. */
  maxTokens: number
  sampler: TokenSampler, stream: TextStream
  isEnd: (token: number) => boolean
  /** Parses reasoning and tool calls; null for text completions. */
  reader: OutputReader | null
  /** Limit on the number of tool calls in the answer. */
  calls: number
  outbox: Outbox, signal: AbortSignal
  admitted: () => void
  now: () => number
  trace?: SpanSink | undefined
}

type Finish = 'stop' | 'length' | 'tool_calls'

export class Answer implements Job {
  readonly prompt: readonly number[]
  private readonly parts: AnswerParts
  private readonly spans: AnswerSpans | undefined
  private cached = 0
  private written = 0
  private startedAt = 0
  private firstAt = 0
  /** Logprobs that wait for the next chunk with text. */
  private reports: Report[] = []

  constructor (parts: AnswerParts) {
    this.parts = parts
    this.prompt = parts.prompt
    if (parts.trace !== undefined) this.spans = new AnswerSpans(parts.trace, parts.index)
  }

  get isCancelled (): boolean { return this.parts.signal.aborted }

  started (cached: number): void {
    this.cached = cached
    this.startedAt = this.parts.now()
    this.spans?.started()
    this.parts.admitted()
  }

  async next (at: number): Promise<number | null> {
    const { sampler, stream, isEnd, maxTokens, reader, calls, now } = this.parts
    const { token, report } = await sampler.choose(at)
    if (this.written++ === 0) this.firstAt = now()
    this.spans?.token(this.written, this.prompt.length - this.cached)
    if (isEnd(token)) return this.end('stop')
    if (report !== null) this.reports.push(report)
    const { text, stopped } = stream.push(token)
    this.send(text)
    if (stopped || (reader?.calls ?? 0) > calls) return this.end('stop')
    return this.written >= maxTokens ? this.end('length') : token
  }

  failed (error: unknown): void {
    this.parts.sampler.dispose()
    this.parts.outbox.fail(error)
  }

  private end (reason: 'stop' | 'length'): null {
    const { index, sampler, stream, reader, outbox } = this.parts
    this.send(stream.end().text, true)
    sampler.dispose()
    const finish: Finish = reason === 'stop' && (reader?.calls ?? 0) > 0 ? 'tool_calls' : reason
    const last = reader === null ? { text: '' } : { delta: {} }
    outbox.push({
      choices: [{ index, ...last, finish_reason: finish, stop_text: stream.stop }],
      usage: {
        prompt_tokens: this.prompt.length, completion_tokens: this.written,
        prompt_tokens_details: { cached_tokens: this.cached }
      },
      timings: this.timings()
    })
    outbox.end()
    this.spans?.ended({
      input_tokens: this.prompt.length, output_tokens: this.written, cached_tokens: this.cached
    })
    return null
  }

  private timings (): Record<string, number> {
    const { cached, written, firstAt, startedAt, prompt, parts: { now } } = this
    const rate = (name: string, tokens: number, ms: number): Record<string, number> =>
      tokens > 0 && ms > 0 ? { [name]: tokens / ms * 1000 } : {}
    return {
      ...rate('prompt_per_second', prompt.length - cached, firstAt - startedAt),
      ...rate('predicted_per_second', written - 1, now() - firstAt),
      peak_memory_bytes: process.resourceUsage().maxRSS * KIB
    }
  }

  private send (text: string, isLast = false): void {
    const { index, reader, outbox } = this.parts
    const logprobs = this.reports.length === 0 ? {} : { logprobs: { content: this.reports } }
    if (reader === null) {
      if (text === '' && this.reports.length === 0) return
      outbox.push({ choices: [{ index, text, ...logprobs }] })
    } else {
      const deltas = [reader.push(text), ...isLast ? [reader.end()] : []].map((delta) => this.limited(delta))
      const delta = deltas.find((each) => Object.keys(each).length > 0) ?? {}
      const further = deltas.filter((each) => each !== delta && Object.keys(each).length > 0)
      if (Object.keys(delta).length === 0 && this.reports.length === 0) return
      outbox.push({ choices: [{ index, delta, ...logprobs }] })
      for (const each of further) outbox.push({ choices: [{ index, delta: each }] })
    }
    this.reports = []
  }

  /** The delta without calls beyond the limit. */
  private limited ({ tool_calls: calls = [], ...delta }: OutputDelta): OutputDelta {
    const allowed = calls.filter(({ index }) => index < this.parts.calls)
    return allowed.length === 0 ? delta : { ...delta, tool_calls: allowed }
  }
}

/** An id for a tool call: nine letters and digits, which all templates accept. */
export const newCallId = (): string => randomUUID().replaceAll('-', '').slice(0, 9)
