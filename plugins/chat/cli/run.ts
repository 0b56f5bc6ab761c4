import {
  readNumber, readPipe, realPace, retryUntil, visible, type WaitClock, type Verb, type VerbContext,
  isVerbError, modelInPath, verbModule, type VerbError
} from '../../../kernel/cli/index.js'
import { parametersOf, samplingOf } from '../../runners/language/sampling.js'
import { converse } from './converse.js'
import { answerOf, readDelta, type ChatMessage, type AnswerPart, type ModelRequest } from './answer.js'
import { numberOf, type Fields } from '../../runners/language/json.js'
import { loopFinder } from '../repetition.js'
import { statSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { editDistance } from '../../../kernel/index.js'
import { modelFetcher, readModelOrPath, type NamedModel } from '../../staging/service.js'
import type { PlaceModule } from '../../placement/service.js'

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

type Settings = ReturnType<typeof readSettings>

/** Reads the options of `svc run`, which apply to each turn. Throws VerbError (2) for invalid ones. */
function readSettings (ctx: VerbContext, model: string, options: Record<string, unknown>) {
  const given = parametersOf('cli').map(({ name, parameter, flag, min, max, whole = false }) =>
    [name, readNumber(ctx, flag, options[parameter], { min, max, whole })])
  const most = readNumber(ctx, '--max-tokens', options['maxTokens'], { min: 1 })
  const request: ModelRequest = {
    model, ...samplingOf('cli', Object.fromEntries(given) as object), max_tokens: most ?? USUAL_TOKENS
  }
  return {
    request,
    /** Whether to stop an answer that repeats itself. */
    endsLoops: most === undefined,
    /** The system message; empty for none. */
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

interface Known { card: { quantization: string | null, files: { path: string, bytes: number }[] } }

/** Whether the error means that the model exists but does not support the requested task. */
const isOfAnotherTask = (error: unknown): boolean =>
  isVerbError(error) && error.api?.reason === 'wrong_task'

/** Whether the error means that the model is missing or not ready. */
const isAbsent = (error: unknown): error is VerbError =>
  isVerbError(error) && error.api?.reason === 'no_instance'

/** Maximum edit distance between an unknown model name and the name to suggest. */
const MISTYPED = 2

/** Parses a model name. Throws VerbError (2), with a similar name if there is one. */
async function namedModel (ctx: VerbContext, word: string): Promise<NamedModel> {
  try {
    return readModelOrPath(ctx, word)
  } catch (error) {
    throw isVerbError(error) ? ctx.fail(2, error.message + await suggestion(ctx, word)) : error
  }
}

/** `; did you mean acme/chat?` if a known model has a similar name with the same numbers. */
async function suggestion ({ client }: VerbContext, word: string): Promise<string> {
  const { data } = await client.json<{ data: { id: string }[] }>('/v1/models').catch(() => ({ data: [] }))
  const digits = (name: string): string => name.replace(/\D+/g, ' ').trim()
  const near = data.find(({ id }) => [id, id.replace(/^.*\//, '')].some((name) =>
    digits(name) === digits(word) && editDistance(name.toLowerCase(), word.toLowerCase()) <= MISTYPED))
  return near === undefined ? '' : `; did you mean ${near.id}?`
}

/** Whether the model accepts requests; true if the list is not available. */
async function isReady ({ client }: VerbContext, { modelId }: NamedModel): Promise<boolean> {
  const { data } = await client.json<{ data: { id: string, ready: boolean }[] }>('/v1/models')
    .catch(() => ({ data: [{ id: modelId, ready: true }] }))
  return data.some(({ id, ready }) => id === modelId && ready)
}

/**
 * Throws VerbError (1) if the cluster has the model with weights other than those requested, since a pull
 * would replace them for all users.
 */
async function checkWeights (ctx: VerbContext, named: NamedModel): Promise<void> {
  const { modelId, variant, source = '' } = named
  const file = source.startsWith('file:') ? fileURLToPath(source) : undefined
  const known = variant === undefined && file === undefined ? undefined : await fetchCard(ctx, named)
  if (known === undefined) return
  if (file !== undefined) {
    checkFile(ctx, file, modelId, known)
    return
  }
  const wanted = variant!.toLowerCase()
  const { quantization, files } = known.card
  const here = quantization ?? 'fp32'
  if (here.toLowerCase() === wanted || files.some(({ path }) => path.toLowerCase().includes(wanted))) return
  throw ctx.fail(1, `${modelId} is here as ${here}: run it without :${variant!}, or replace its ` +
    `weights with svc pull ${modelId}:${variant!}`)
}

/** Throws VerbError (1) if the model of that name in the cluster has no such file of that size. */
function checkFile (ctx: VerbContext, file: string, modelId: string, { card: { files } }: Known): void {
  const stats = statSync(file)
  const same = files.some(({ path, bytes }) => basename(path) === basename(file) && bytes === stats.size)
  if (stats.isDirectory() || files.length === 0 || same) return
  throw ctx.fail(1, `${modelId} is here with other weights than ${file}: replace them with ` +
    `svc pull ${file}, or keep both: add --as ORG/NAME`)
}

/**
 * Makes a model ready: downloads it if it is unknown, places it, and waits. Resolves to false if the caller
 * may not read its card. Throws VerbError.
 */
async function serveModel (
  ctx: VerbContext, pace: WaitClock, named: NamedModel, yes: boolean
): Promise<boolean> {
  const { modelId } = named
  const known = await fetchCard(ctx, named).catch(() => null)
  if (known === null) return false
  if (known === undefined) {
    const near = named.source === undefined ? await suggestion(ctx, modelId) : ''
    if (near !== '') {
      throw ctx.fail(3, `there is no model ${modelId} here${near}\n  from the hub: svc pull ${modelId}`)
    }
    const fetchModel = await modelFetcher()
    await fetchModel(ctx, pace, named, yes)
  }
  const { makeReady } = await verbModule(ctx, 'place') as PlaceModule
  await makeReady(ctx, pace, modelId, ctx.wait === undefined ? Infinity : ctx.wait * 1000, yes)
  return true
}

/** The model's card; undefined if the model is unknown. Throws VerbError. */
async function fetchCard ({ client }: VerbContext, { modelId }: NamedModel): Promise<Known | undefined> {
  try {
    return await client.json<Known>(`/models/${modelInPath(modelId)}/card`)
  } catch (error) {
    if (isVerbError(error) && error.api?.reason === 'model_not_found') return undefined
    throw error
  }
}
