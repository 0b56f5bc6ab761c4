import { patiently } from '../../../kernel/cli/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import { visible } from './api.js'
import { answerOf, readDelta } from './answer.js'
import type { AnswerPart, ChatAsk, ChatChunk, GenerationStats } from './answer.js'

/** How a question is asked. */
export interface TurnOptions {
  /** Ends this answer only. */
  signal: AbortSignal
  /** Whether the speed is shown. */
  stats: boolean
}

/** What came of a question. */
export interface Turn { text: string, cancelled: boolean }

/**
 * Asks, and shows the answer as it comes: its text, or with `--json` its chunks. Throws VerbError; what was
 * shown until then stays.
 */
export async function takeTurn (ctx: VerbContext, ask: ChatAsk, options: TurnOptions): Promise<Turn> {
  const { signal } = options
  const printer = new Printer(ctx, options.stats)
  let cancelled = false
  try {
    await patiently(ctx, () => signal.aborted, async () => {
      for await (const part of answerOf(ctx, ask, signal)) await printer.take(part)
    })
  } catch (error) {
    if (!signal.aborted) throw error
    cancelled = true
  } finally {
    ctx.err.end()
    await printer.endLine()
  }
  if (!cancelled) printer.sayEnd()
  return { text: printer.text, cancelled }
}

/** Shows an answer: text on stdout, what the model thinks and figures on stderr. */
class Printer {
  text = ''
  readonly #ctx: VerbContext
  readonly #withStats: boolean
  #stats: GenerationStats | null = null
  #finish: string | null = null
  /** What was written last, so that the next thing begins on a line of its own. */
  #open: 'text' | 'thought' | null = null

  constructor (ctx: VerbContext, withStats: boolean) {
    this.#ctx = ctx
    this.#withStats = withStats
  }

  async take (part: AnswerPart): Promise<void> {
    this.#ctx.err.end()
    if (part.kind === 'stats') {
      this.#stats = part.stats
      return
    }
    const { text, thought, finish } = readDelta(part.chunk)
    this.text += text
    this.#finish = finish ?? this.#finish
    if (this.#ctx.out.json) this.#line(part.chunk)
    else {
      await this.#think(thought)
      await this.#say(text)
    }
  }

  /** A C1 control character in JSON is no escape by itself, and controls some terminals. */
  #line (chunk: ChatChunk): void {
    this.#ctx.out.line(JSON.stringify(chunk).replace(/[\x7f-\x9f]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`))
  }

  async #say (text: string): Promise<void> {
    const { out } = this.#ctx
    const shown = out.terminal ? visible(text) : text
    if (shown === '') return
    if (this.#open === 'thought') await this.endLine()
    await out.bytes(Buffer.from(shown))
    this.#open = shown.endsWith('\n') ? null : 'text'
  }

  /** Only a person wants to see it. */
  async #think (thought: string): Promise<void> {
    const { err, io: { stderr } } = this.#ctx
    if (thought === '' || stderr.isTTY !== true) return
    if (this.#open === 'text') await this.endLine()
    stderr.write(err.paint('dim', visible(thought)))
    this.#open = 'thought'
  }

  /** Ends the line that is open, if one is. */
  async endLine (): Promise<void> {
    const { out, io: { stderr } } = this.#ctx
    if (this.#open === 'text') await out.bytes(Buffer.from('\n'))
    if (this.#open === 'thought') stderr.write('\n')
    this.#open = null
  }

  /** What there is to say when the answer is complete. */
  sayEnd (): void {
    const { err } = this.#ctx
    if (this.text === '') err.line('the model answered without any text')
    else if (this.#finish === 'length') err.line('cut off at the limit of tokens (--max-tokens)')
    if (this.#withStats) err.line(this.#stats === null ? 'the node gave no figures' : words(this.#stats))
  }
}

/** Figures of an answer in a line. */
function words ({ promptTokens, promptRate, tokens, rate }: GenerationStats): string {
  const number = (value: number | null): string => value === null ? '?' : String(Math.round(value * 10) / 10)
  return `${number(rate)} tokens/s, ${number(tokens)} tokens; ` +
    `prompt ${number(promptRate)} tokens/s, ${number(promptTokens)} tokens`
}
