/** The pieces of an answer, their queue, and the spans of a traced answer. */
import type { OpenSpan, SpanSeries, SpanSink } from '../../../kernel/api/engine.js'

/** A token, and its bytes where they are known: `text` has U+FFFD for a part of a character. */
export interface NamedToken { id: number, text: string, bytes?: number[] }

/** A token as it is reported with log probabilities. */
export interface TokenReport extends NamedToken {
  logprob: number | null, top: Array<NamedToken & { logprob: number }>
}

/** New text of one of a task's answers; `tokens` only where log probabilities were asked for. */
export interface Delta { kind: 'delta', index: number, text: string, tokens?: TokenReport[] }

/** The end of an answer. Rates are tokens per second, null where nothing was measured. */
export interface Done {
  kind: 'done'
  index: number
  finish_reason: 'stop' | 'length'
  /** The stop text that ended it, if one did. */
  stop_text: string | null
  usage: { prompt_tokens: number, completion_tokens: number, cached_tokens: number }
  stats: { prompt_tps: number | null, generation_tps: number | null, peak_memory_bytes: number }
}

/** Bounds of one joined piece, so that it fits into a frame. */
const MAX_CHARS = 16_384
const MAX_TOKENS = 128

/** Joins the second piece into the first where both are of one answer and small. False where they are not. */
function joined (first: Delta, second: Delta): boolean {
  const tokens = (first.tokens?.length ?? 0) + (second.tokens?.length ?? 0)
  const chars = first.text.length + second.text.length
  if (first.index !== second.index || tokens > MAX_TOKENS || chars > MAX_CHARS) return false
  first.text += second.text
  if (second.tokens !== undefined) first.tokens = [...first.tokens ?? [], ...second.tokens]
  return true
}

/**
 * The queue of a request from the scheduler, which never waits, to one reader, who may be slow. What is not
 * read yet is joined per answer. It ends with the last of its answers.
 */
export class Mailbox {
  private readonly pending: Array<Delta | Done> = []
  private open: number
  private error: unknown
  private wake = (): void => {}

  constructor (answers: number) { this.open = answers }

  push (piece: Delta | Done): void {
    const last = this.pending.at(-1)
    const isJoined = piece.kind === 'delta' && last?.kind === 'delta' && joined(last, piece)
    if (!isJoined) this.pending.push(piece)
    if (piece.kind === 'done') this.open--
    this.wake()
  }

  /** No more will come. */
  close (): void {
    this.open = 0
    this.wake()
  }

  /** Nothing more will come; the reader gets the error after what it has not read. */
  fail (error: unknown): void {
    this.error ??= error
    this.close()
  }

  async * read (): AsyncGenerator<Delta | Done, void> {
    for (;;) {
      const next = this.pending.shift()
      if (next !== undefined) yield next
      else if (this.error !== undefined) throw this.error
      else if (this.open <= 0) return
      else await new Promise<void>((resolve) => { this.wake = resolve })
    }
  }
}

/** The spans of one traced answer: its wait, the work on the prompt, and the time between tokens. */
export class AnswerSpans {
  private readonly trace: SpanSink
  /** Names of further answers to the same prompt carry their number. */
  private readonly suffix: string
  /** The work on the prompt and on the answer, with its parts. */
  private generate: OpenSpan | undefined
  private decode: SpanSeries | undefined
  /** When the last thing ended. */
  private at: number

  constructor (trace: SpanSink, index: number) {
    this.trace = trace
    this.suffix = index === 0 ? '' : ` ${index}`
    this.at = trace.now()
  }

  /** The work on the prompt begins. */
  started (): void {
    const now = this.trace.now()
    this.trace.span(`wait${this.suffix}`, 'queue', this.at, now)
    this.at = now
    this.answer()
  }

  /** The token number `written` (from 1) was chosen; `fed` tokens of the prompt had to be computed. */
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

  /** The answer is complete. */
  ended (tokens: Record<string, number>): void {
    this.answer().end(tokens, this.at)
  }

  private answer (): OpenSpan {
    return this.generate ??= this.trace.open(`generate${this.suffix}`, 'generate', this.at)
  }
}
