import { patiently, visible } from '../../../kernel/cli/index.js'
import { numberOf } from '../../runners/language/json.js'
import { answerOf, readDelta } from './answer.js'
import { isAbsent, isOfAnotherTask, onlyCompletes } from './bring.js'
import type { VerbContext } from '../../../kernel/cli/index.js'
import type { Fields } from '../../runners/language/json.js'
import type { AnswerPart, AnswerRequest, ChatMessage, ModelRequest } from './answer.js'

/** What stays the same from question to question. */
export interface Settings {
  request: ModelRequest
  /** Found out at the first question: a model without a chat template goes on with the text it is given. */
  way: { completes: boolean }
  /** The system message; empty for none. */
  system: string
  /** Whether the speed is shown. */
  stats: boolean
}

/** Tokens of a text that no end is in sight of. */
const COMPLETED_TOKENS = 256

/** What came of a question. */
export interface Turn { text: string, cancelled: boolean }

/**
 * Asks for the next answer of a conversation, and shows it as it comes: its text, or with `--json` its
 * chunks. The signal ends this answer only. Throws VerbError; what was shown until then stays. `atOnce`: a
 * model that is not there is not waited for because of --wait.
 */
export async function takeTurn (
  ctx: VerbContext, settings: Settings, conversation: readonly ChatMessage[], signal: AbortSignal,
  atOnce = false
): Promise<Turn> {
  const { request: { model }, way } = settings
  try {
    return await oneTurn(ctx, settings, conversation, signal, atOnce)
  } catch (error) {
    if (way.completes || !await onlyCompletes(ctx, model, error)) throw error
    way.completes = true
    ctx.err.line(`${model} has no chat template: it goes on with each text by itself`)
    return await oneTurn(ctx, settings, conversation, signal, atOnce)
  }
}

function requestOf (
  { request, system, way }: Settings, conversation: readonly ChatMessage[]
): AnswerRequest {
  if (!way.completes) {
    const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }]
    return { ...request, messages: [...first, ...conversation] }
  }
  const prompt = [system, conversation.at(-1)?.content ?? ''].filter((text) => text !== '').join('\n\n')
  return { max_tokens: COMPLETED_TOKENS, ...request, prompt }
}

async function oneTurn (
  ctx: VerbContext, settings: Settings, conversation: readonly ChatMessage[], signal: AbortSignal,
  atOnce: boolean
): Promise<Turn> {
  const { stats } = settings
  const asked = requestOf(settings, conversation)
  const printer = new Printer(ctx, stats)
  let cancelled = false
  let absent = false
  try {
    await patiently(ctx, () => signal.aborted || absent, async () => {
      try {
        for await (const part of answerOf(ctx, asked, signal)) await printer.take(part)
      } catch (error) {
        absent = isOfAnotherTask(error) || (atOnce && ctx.wait !== undefined && isAbsent(error))
        throw error
      }
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
  #stats: Fields | null = null
  #finish: string | null = null
  /** What the unfinished line on the terminal is, so that something else begins on a new line. */
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
  #line (chunk: Fields): void {
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

  /** Shown on a terminal only. */
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
function words (stats: Fields): string {
  const figure = (name: string): string => {
    const value = numberOf(stats[name])
    return value === undefined ? '?' : String(Math.round(value * 10) / 10)
  }
  return `${figure('generation_tps')} tokens/s, ${figure('generation_tokens')} tokens; ` +
    `prompt ${figure('prompt_tps')} tokens/s, ${figure('prompt_tokens')} tokens`
}
