import type { OpenSpan, SpanSeries, SpanSink } from '../../../kernel/api/engine.js'

/** The spans of one traced answer: queue wait, prompt processing, and the time between tokens. */
export class AnswerSpans {
  private readonly trace: SpanSink
  /** For additional answers to the same prompt, span names end with the number of the answer. */
  private readonly suffix: string
  private generate: OpenSpan | undefined
  private decode: SpanSeries | undefined
  private at: number

  constructor (trace: SpanSink, index: number) {
    this.trace = trace
    this.suffix = index === 0 ? '' : ` ${index}`
    this.at = trace.now()
  }

  started (): void {
    const now = this.trace.now()
    this.trace.span(`wait${this.suffix}`, 'queue', this.at, now)
    this.at = now
    this.answer()
  }

  /** Call once token number `written` (from 1) has been chosen; `fed` prompt tokens had to be computed. */
  token (written: number, fed: number): void {
    const now = this.trace.now()
    if (written === 1) {
      this.answer().span(`prefill${this.suffix}`, 'prefill', this.at, now, { tokens: fed })
      this.decode = this.answer().series(`decode${this.suffix}`, 'decode')
    } else {
      this.decode?.add(this.at, now)
    }
    this.at = now
  }

  ended (tokens: Record<string, number>): void { this.answer().end(tokens, this.at) }

  private answer (): OpenSpan {
    return this.generate ??= this.trace.open(`generate${this.suffix}`, 'generate', this.at)
  }
}
