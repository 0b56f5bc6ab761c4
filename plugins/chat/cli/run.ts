import { readPipe, realPace } from '../../../kernel/cli/index.js'
import { parametersOf, samplingOf } from '../../runners/language/sampling.js'
import { serveModel, checkWeights, isAbsent, isReady, namedModel } from './serve-model.js'
import { converse } from './converse.js'
import { COUNT, readNumber } from './input.js'
import { takeTurn } from './turn.js'
import type { WaitClock, Verb, VerbContext } from '../../../kernel/cli/index.js'
import type { ChatMessage } from './answer.js'
import type { Settings, Turn } from './turn.js'

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
  const system = (rest: string): string => {
    settings = { ...settings, system: rest }
    return rest === '' ? 'the system message is removed' : 'the system message is set'
  }
  return await converse(ctx, {
    about: settings.request.model,
    commands: {
      system: {
        usage: '/system TEXT', help: 'set the system message; without TEXT remove it', run: system
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

/** Reads the options of `svc run`. Throws VerbError (2) for invalid ones. */
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

/** The prompt argument, followed by piped text; `-` means the piped text alone. */
async function promptOf (ctx: VerbContext, words: string): Promise<string> {
  if (words !== '-' && ctx.io.stdin.isTTY === true) return words
  const bytes = await readPipe(ctx, STDIN_MAX)
  if (bytes.length > STDIN_MAX) throw ctx.fail(2, `the piped text is over ${STDIN_MAX} bytes`)
  const piped = bytes.toString('utf8').replace(/(?<![\r\n])[\r\n]+$/, '')
  return [words === '-' ? '' : words, piped].filter((text) => text !== '').join('\n\n')
}
