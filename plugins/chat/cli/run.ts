import {
  readNumber, readPipe, realPace, retryUntil, visible, type WaitClock, type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { parametersOf, samplingOf } from '../../runners/language/sampling.js'
import { serveModel, checkWeights, isAbsent, isReady, namedModel, isOfAnotherTask } from './serve-model.js'
import { converse } from './converse.js'
import { answerOf, readDelta, type ChatMessage, type AnswerPart, type ModelRequest } from './answer.js'
import { numberOf, type Fields } from '../../runners/language/json.js'
import { loopFinder } from '../repetition.js'

/** Default of --max-tokens; without the option, an answer that repeats itself is stopped earlier. */
const USUAL_TOKENS = 4096
/** Limit on bytes read from a pipe. */
const STDIN_MAX = 16 * 1024 * 1024

/**
 * `svc run`: answers a given or piped prompt once; otherwise holds a conversation on the terminal. Downloads
 * and places the model if necessary, and waits until it is ready.
 */
export function createRun (pace: WaitClock): Verb {
  return {
    async run (ctx, [model, ...words], options) {
      const named = await namedModel(ctx, model!)
      const settings = readSettings(ctx, named.modelId, options)
      const prepare = async (): Promise<boolean> =>
        await serveModel(ctx, pace, named, options['yes'] === true)
      if (words.length === 0 && ctx.io.stdin.isTTY === true) {
        await checkWeights(ctx, named)
        if (!await isReady(ctx, named)) await prepare()
        return await talk(ctx, settings)
      }
      const content = await promptOf(ctx, words.join(' '))
      if (content.trim() === '') {
        throw ctx.fail(2, `the prompt is missing: svc run ${model!} "hello", or pipe a text`)
      }
      await checkWeights(ctx, named)
      const ask = async (atOnce: boolean): Promise<Turn> =>
        await takeTurn(ctx, settings, [{ role: 'user', content }], ctx.signal, atOnce)
      const { cancelled } = await ask(true).catch(async (error: unknown) => {
        if (!isAbsent(error) || (!await prepare() && !(ctx.wait! > 0))) throw error
        return await ask(false)
      })
      if (cancelled) throw ctx.fail(130, 'interrupted')
    }
  }
}

export default createRun(realPace)

/** Holds a conversation. A question whose answer failed is not kept, so the user can ask it again. */
async function talk (ctx: VerbContext, given: Settings): Promise<number> {
  let settings = given
  let messages: ChatMessage[] = []
  return await converse(ctx, {
    about: settings.request.model,
    system (text) {
      settings = { ...settings, system: text }
      return text === '' ? 'the system message is removed' : 'the system message is set'
    },
    async answer (content, signal) {
      const asked: ChatMessage[] = [...messages, { role: 'user', content }]
      const { text, cancelled } = await takeTurn(ctx, settings, asked, signal)
      if (!cancelled || text !== '') messages = [...asked, { role: 'assistant', content: text }]
      return cancelled
    },
    forget () { messages = [] }
  })
}

/** Reads the options of `svc run`. Throws VerbError (2) for invalid ones. */
function readSettings (ctx: VerbContext, model: string, options: Record<string, unknown>): Settings {
  const given = parametersOf('cli').map(({ name, parameter, flag, min, max, whole = false }) =>
    [name, readNumber(ctx, flag, options[parameter], { min, max, whole })])
  const most = readNumber(ctx, '--max-tokens', options['maxTokens'], { min: 1 })
  return {
    request: {
      model, ...samplingOf('cli', Object.fromEntries(given) as object), max_tokens: most ?? USUAL_TOKENS
    },
    endsLoops: most === undefined,
    system: (options['system'] as string | undefined) ?? '',
    stats: options['stats'] === true
  }
}

/** The prompt argument, followed by piped text; `-` means the piped text alone. */
async function promptOf (ctx: VerbContext, words: string): Promise<string> {
  if (words !== '-' && ctx.io.stdin.isTTY === true) return words
  const bytes = await readPipe(ctx, STDIN_MAX)
  if (bytes.length > STDIN_MAX) throw ctx.fail(2, `the piped text is over ${STDIN_MAX} bytes`)
  const piped = bytes.toString('utf8').replace(/(?<![\r\n])[\r\n]+$/, '')
  return [words === '-' ? '' : words, piped].filter((text) => text !== '').join('\n\n')
}

/** Settings that apply to each turn of a conversation. */
interface Settings {
  request: ModelRequest
  /** The system message; empty for none. */
  system: string
  /** Whether to stop an answer that repeats itself; only without --max-tokens. */
  endsLoops: boolean
  /** Whether to show the speed. */
  stats: boolean
}

interface Turn { text: string, cancelled: boolean }

/**
 * Requests the next answer of a conversation and streams its text (with `--json` its chunks) to stdout. The
 * signal ends only this answer. Throws VerbError, possibly after some output. With `atOnce`, a missing model
 * is an error even if --wait is set.
 */
async function takeTurn (
  ctx: VerbContext, settings: Settings, conversation: readonly ChatMessage[], signal: AbortSignal,
  atOnce = false
): Promise<Turn> {
  const { request, system } = settings
  const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }]
  const asked = { ...request, messages: [...first, ...conversation] }
  const printer = new Printer(ctx, settings)
  let cancelled = false
  let absent = false
  try {
    await retryUntil(ctx, () => signal.aborted || absent, async () => {
      try {
        for await (const part of answerOf(ctx, asked, signal)) {
          await printer.take(part)
          if (printer.looped) break
        }
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
  if (!cancelled) printer.printEnd()
  return { text: printer.text, cancelled }
}

/** Prints text on stdout, reasoning and statistics on stderr. */
class Printer {
  text = ''
  /** Whether the answer repeats itself and must be stopped. */
  looped = false
  readonly #ctx: VerbContext
  readonly #settings: Settings
  readonly #isLoop = loopFinder()
  #stats: Fields | null = null
  #finish: string | null = null
  /** Kind of the unfinished line on the terminal; other output first starts a new line. */
  #open: 'text' | 'thought' | null = null

  constructor (ctx: VerbContext, settings: Settings) {
    this.#ctx = ctx
    this.#settings = settings
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
    this.looped = this.#isLoop(thought + text) && this.#settings.endsLoops
    if (this.#ctx.out.json) this.#line(part.chunk)
    else {
      await this.#printThought(thought)
      await this.#printText(text)
    }
  }

  /** Prints a chunk as a JSON line, escaping C1 control characters, which some terminals obey. */
  #line (chunk: Fields): void {
    this.#ctx.out.line(JSON.stringify(chunk).replace(/[\x7f-\x9f]/g,
      (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`))
  }

  async #printText (text: string): Promise<void> {
    const { out } = this.#ctx
    const shown = out.terminal ? visible(text) : text
    if (shown === '') return
    if (this.#open === 'thought') await this.endLine()
    await out.bytes(Buffer.from(shown))
    this.#open = shown.endsWith('\n') ? null : 'text'
  }

  /** Reasoning is printed on a terminal only. */
  async #printThought (thought: string): Promise<void> {
    const { err, io: { stderr } } = this.#ctx
    if (thought === '' || stderr.isTTY !== true) return
    if (this.#open === 'text') await this.endLine()
    stderr.write(err.paint('dim', visible(thought)))
    this.#open = 'thought'
  }

  async endLine (): Promise<void> {
    const { out, io: { stderr } } = this.#ctx
    if (this.#open === 'text') await out.bytes(Buffer.from('\n'))
    if (this.#open === 'thought') stderr.write('\n')
    this.#open = null
  }

  /** Prints a note if the answer was stopped, empty or cut off, and the statistics. */
  printEnd (): void {
    const { err } = this.#ctx
    if (this.looped) err.line('stopped: the answer repeats itself; --max-tokens continues up to that limit')
    else if (this.text === '') err.line('the answer has no text')
    else if (this.#finish === 'length') err.line('cut off at the token limit (--max-tokens)')
    if (!this.#settings.stats || this.looped) return
    err.line(this.#stats === null ? 'the node sent no statistics' : statsText(this.#stats))
  }
}

function statsText (stats: Fields): string {
  const figure = (name: string): string => {
    const value = numberOf(stats[name])
    return value === undefined ? '?' : String(Math.round(value * 10) / 10)
  }
  return `${figure('generation_tps')} tokens/s, ${figure('generation_tokens')} tokens; ` +
    `prompt ${figure('prompt_tps')} tokens/s, ${figure('prompt_tokens')} tokens`
}
