/** The spans of one traced answer. */
import type { SpanSeries, SpanSink } from '../../../kernel/api/engine.js'

/** Notes the wait for a place, the work on the prompt, and the time from each token to the next. */
export class AnswerSpans {
  private readonly trace: SpanSink
  /** Names of further answers to the same prompt carry their number. */
  private readonly suffix: string
  private decode: SpanSeries | undefined
  private startedMs: number
  /** When the last thing ended. */
  private at: number

  constructor (trace: SpanSink, index: number) {
    this.trace = trace
    this.suffix = index === 0 ? '' : ` ${index}`
    this.at = this.startedMs = trace.now()
  }

  /** The work on the prompt begins. */
  started (): void {
    this.startedMs = this.trace.now()
    this.trace.span(`wait${this.suffix}`, 'queue', this.at, this.startedMs)
    this.at = this.startedMs
  }

  /** The token number `written` (from 1) was chosen; `fed` tokens of the prompt had to be computed. */
  token (written: number, fed: number): void {
    const now = this.trace.now()
    if (written === 1) {
      this.trace.span(`prefill${this.suffix}`, 'prefill', this.at, now, { tokens: fed })
      this.decode = this.trace.series(`decode${this.suffix}`, 'decode')
    } else {
      this.decode?.add(this.at, now)
    }
    this.at = now
  }

  /** The answer is complete. */
  ended (tokens: Record<string, number>): void {
    this.trace.span(`generate${this.suffix}`, 'generate', this.startedMs, this.at, tokens)
  }
}
