/** One answer: the tokens of a sequence on their way to text. */
import type { SpanSink } from '../../../kernel/api/engine.js'
import type { ChosenToken, LoadedText, TextStream, TokenChooser } from '../text/types.js'
import { AnswerSpans, type Delta, type Done, type Mailbox, type TokenReport } from './pieces.js'
import type { Job } from './sequence.js'

/** What an answer is made with. */
export interface GenerationParts {
  index: number
  prompt: readonly number[]
  /** At least 1; prompt and answer fit into the context. */
  maxTokens: number
  chooser: TokenChooser
  stream: TextStream
  /** Report every token. */
  logprobs: boolean
  text: LoadedText
  mailbox: Mailbox
  now: () => number
  /** Where the spans are noted, when the request is traced. */
  trace?: SpanSink | undefined
}

const KIB = 1024

/** Tokens per second. */
const rate = (tokens: number, ms: number): number | null => tokens > 0 && ms > 0 ? tokens / ms * 1000 : null

/** An answer as a job of the scheduler. */
export class Generation implements Job {
  readonly prompt: readonly number[]
  private readonly parts: GenerationParts
  private cached = 0
  private written = 0
  private reason: Done['finish_reason'] = 'stop'
  private startedAt = 0
  private firstAt = 0
  /** Tokens to report with the next text. */
  private reports: TokenReport[] = []
  private readonly spans: AnswerSpans | undefined

  constructor (parts: GenerationParts) {
    this.parts = parts
    this.prompt = parts.prompt
    parts.chooser.prompt(parts.prompt)
    if (parts.trace !== undefined) this.spans = new AnswerSpans(parts.trace, parts.index)
  }

  started (cached: number): void {
    this.cached = cached
    this.startedAt = this.parts.now()
    this.spans?.started()
  }

  next (logits: Float32Array): { id: number, done: boolean } {
    const { text, chooser, stream, maxTokens, logprobs, now } = this.parts
    const chosen = chooser.choose(logits)
    const { id } = chosen
    if (this.written++ === 0) this.firstAt = now()
    this.spans?.token(this.written, this.prompt.length - this.cached)
    if (text.eosIds.has(id)) return { id, done: true }
    if (logprobs) this.reports.push(this.report(chosen))
    const { text: piece, stopped } = stream.push(id)
    this.send(piece)
    if (!stopped && this.written >= maxTokens) this.reason = 'length'
    return { id, done: stopped || this.written >= maxTokens }
  }

  ended (): void {
    const { index, mailbox, stream, prompt, now } = this.parts
    this.send(stream.end().text)
    const { cached, written, firstAt, startedAt } = this
    this.spans?.ended({ input_tokens: prompt.length, output_tokens: written, cached_tokens: cached })
    mailbox.push({
      kind: 'done',
      index,
      finish_reason: this.reason,
      stop_text: stream.stop,
      usage: { prompt_tokens: prompt.length, completion_tokens: written, cached_tokens: cached },
      stats: {
        prompt_tps: rate(prompt.length - cached, firstAt - startedAt),
        generation_tps: rate(written - 1, now() - firstAt),
        peak_memory_bytes: process.resourceUsage().maxRSS * KIB
      }
    })
  }

  failed (error: unknown): void { this.parts.mailbox.fail(error) }

  private report ({ id, logprob, top }: ChosenToken): TokenReport {
    const { text } = this.parts
    const named = (token: number): Pick<TokenReport, 'text' | 'bytes'> => {
      const bytes = [...text.bytes(token)]
      return { text: Buffer.from(bytes).toString(), bytes }
    }
    return { id, ...named(id), logprob, top: top.map((each) => ({ ...each, ...named(each.id) })) }
  }

  private send (text: string): void {
    const { index, mailbox } = this.parts
    if (text === '' && this.reports.length === 0) return
    const delta: Delta = { kind: 'delta', index, text }
    if (this.reports.length > 0) delta.tokens = this.reports
    this.reports = []
    mailbox.push(delta)
  }
}
