import { readPipe, realPace } from '../../../kernel/cli/index.js'
import { parametersOf, samplingOf } from '../../runners/language/sampling.js'
import { serveModel, checkWeights, isAbsent, isReady, namedModel } from './serve-model.js'
import { converse } from './converse.js'
import { COUNT, readNumber } from './input.js'
import { takeTurn } from './turn.js'
import type { WaitClock, Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { ChatMessage } from './answer.js'
import type { Settings, Turn } from './turn.js'

/** Most tokens of an answer without --max-tokens. */
const USUAL_TOKENS = 4096
/** Longest text that is read from a pipe, bytes. */
const STDIN_MAX = 16 * 1024 * 1024

/**
 * `svc run`: one answer to a prompt or a pipe, else a conversation on the terminal. A model that is not here
 * is fetched, one that is not placed is placed, and one that is not ready is waited for.
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
        throw ctx.fail(2, `there is nothing to ask: svc run ${model!} "hello", or a text through a pipe`)
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

/** A conversation at the prompt. A question that failed is no part of it: it can be asked again. */
async function talk (ctx: VerbContext, given: Settings): Promise<number> {
  let settings = given
  let messages: ChatMessage[] = []
  const system = (rest: string): string => {
    settings = { ...settings, system: rest }
    return rest === '' ? 'the model is told nothing first' : 'the model is told that first'
  }
  return await converse(ctx, {
    about: settings.request.model,
    commands: {
      system: {
        usage: '/system TEXT', help: 'what the model is told first; without TEXT nothing', run: system
      }
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

/** Reads the options of `svc run`. Throws VerbError (2). */
function readSettings (ctx: VerbContext, model: string, options: Record<string, unknown>): Settings {
  const given = parametersOf('cli').map(({ name, parameter, flag, min, max, whole = false }) =>
    [name, readNumber(ctx, flag, options[parameter], { min, max, whole })])
  const most = readNumber(ctx, '--max-tokens', options['maxTokens'], COUNT)
  return {
    request: {
      model, ...samplingOf('cli', Object.fromEntries(given) as object), max_tokens: most ?? USUAL_TOKENS
    },
    endsLoops: most === undefined,
    system: (options['system'] as string | undefined) ?? '',
    stats: options['stats'] === true
  }
}

/** The words, and what comes through the pipe after them; `-` stands for the pipe alone. */
async function promptOf (ctx: VerbContext, words: string): Promise<string> {
  if (words !== '-' && ctx.io.stdin.isTTY === true) return words
  const bytes = await readPipe(ctx, STDIN_MAX)
  if (bytes.length > STDIN_MAX) throw ctx.fail(2, `the text of the pipe is over ${STDIN_MAX} bytes`)
  const piped = bytes.toString('utf8').replace(/(?<![\r\n])[\r\n]+$/, '')
  return [words === '-' ? '' : words, piped].filter((text) => text !== '').join('\n\n')
}
