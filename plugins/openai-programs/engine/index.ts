/**
 * Engine `openai-programs`: starts the program of a description as a child of the runner process, passes
 * requests to it, and ends the runner if the program ends or hangs, so that both are started again.
 */
import { rm } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  EngineError, type EngineEnv, type EngineModule, type EngineSession
} from '../../../kernel/api/engine.js'
import { Client, type Address } from '../../runners/openai/client.js'
import { BrokenAnswer, withoutPaths } from '../../runners/openai/errors.js'
import { freePort, LOOPBACK, Program, type Clock, type EngineParts } from '../../runners/openai/program.js'
import { wordsOf, type Found } from '../find.js'
import { isProof } from './answer.js'
import { commandLine, sizesOf, takesSocket, valuesOf } from './command.js'
import { gangValues, rankSession } from './gang.js'
import { ProgramSession, ROUTES } from './session.js'
import { Tokens } from './tokens.js'
import { ALONE, IN_GANG, Watch } from './watch.js'
import { fieldsOf, numberOf, textOf } from '../../runners/language/json.js'
import { contextExceeded } from '../../runners/language/refusals.js'
import type { GangPlan } from '../../runners/service.js'

const SYSTEM: Clock = {
  now: () => Number(process.hrtime.bigint() / 1_000_000n),
  pause: async (ms) => { await delay(ms, undefined, { ref: false }) }
}
const die = (error: Error): void => { setImmediate(() => { throw error }) }

/** Relative to the working folder, because the length of socket paths is limited. */
const SOCKET = 'program.sock'
const POLL_MS = 200
const OK = 200
/** Limit on a start in CPU seconds; vLLM uses 42 to 140. A start that computes nothing ends earlier. */
const START_SECONDS = 1_200
const SIGNS_MS = 3_000
/** Limit in seconds on the start of a gang, unless its description sets one. */
const MEET_SECONDS = 300

export function programEngine ({ clock, die, echo }: EngineParts): EngineModule {
  return {
    async load (spec, env): Promise<EngineSession> {
      const found = spec.options['program'] as Found | undefined
      if (found === undefined) throw new EngineError('no_backend', 'the plugin openai-programs is off')
      const { name, description, path, root } = found
      const { card: { modelId, tasks }, backend } = spec
      const gang = spec.options['gang'] as GangPlan | null | undefined
      if (gang === null) throw new EngineError('provider_error', 'the ranks of this model are not prepared')
      const tokens = await Tokens.read(spec)
      await rm(SOCKET, { force: true })
      const address: Address = takesSocket(description) ? { socketPath: SOCKET }
        : { host: LOOPBACK, port: await freePort() }
      const start = async (of?: GangPlan): Promise<Program> => {
        const values = await valuesOf(spec, description, address, tokens.template, of?.size)
        const all = { ...values, ...await gangValues(of) }
        const { args, environment } = commandLine(description, backend, all)
        const PATH = [...root === null ? [] : [join(root, 'bin')], process.env['PATH'] ?? ''].join(delimiter)
        return new Program({
          name, path, args, env, clock, die, echo: (line) => { echo(`${name}: ${line}`) },
          variables: { PATH, ...environment }
        })
      }
      if (gang !== undefined && gang.rank > 0) return rankSession(start, die)
      const program = await start(gang)
      const client = new Client({
        address, name, toError: (body, status) => programError(body, { modelId, name }, status)
      })
      const model = description.request_model.replace('{name}', modelId)
      const kind = tasks.includes('chat') ? 'chat' : 'completion'
      const canary = async (seen: () => void): Promise<void> => {
        await generate(client, kind, model, seen)
      }
      // A rank that waits for the others computes all the time.
      const signs = signsOf(found, client, program, gang === undefined ? backend : '')
      const lost = (why: string): void => { die(new Error(`${name} is lost: ${why}`)) }
      const watch = new Watch({ clock, canary, lost, signs, pace: gang === undefined ? ALONE : IN_GANG })
      const close = async (): Promise<void> => {
        watch.close()
        client.close()
        await program.close()
        await rm(SOCKET, { force: true })
      }
      try {
        const seconds = gang === undefined ? Infinity : description.gang?.seconds ?? MEET_SECONDS
        await ready({ found, client, program, canary, env, clock, endMs: clock.now() + seconds * 1_000 })
      } catch (error) {
        await close()
        throw error
      }
      program.dieWithIt()
      void watch.run()
      return new ProgramSession({
        spec, name, words: wordsOf(found), description, model, sizes: sizesOf(spec), tokens, client, program,
        watch, lost, close,
        healthy: async () => await client.status(description.ready).catch(() => 0) === OK
      })
    }
  }
}

/** Asks for one token. @throws BrokenAnswer if the answer has none, and the program's errors */
async function generate (
  client: Client, kind: keyof typeof ROUTES, model: string, seen: () => void
): Promise<void> {
  const question = kind === 'chat' ? { messages: [{ role: 'user', content: 'Hi' }] } : { prompt: 'Hi' }
  const body = { ...question, model, max_tokens: 1, temperature: 0, stream: true }
  let isProven = false
  for await (const event of client.events({ path: ROUTES[kind], body, seen })) isProven ||= isProof(event)
  if (!isProven) throw new BrokenAnswer('an answer had no text')
}

interface Starting {
  found: Found, client: Client, program: Program, env: EngineEnv, canary: (seen: () => void) => Promise<void>
  clock: Clock
  /** Time at which the ranks of a gang must have met. */
  endMs: number
}

/**
 * Waits for the ready path and then for a token. Reports CPU seconds as progress, so that the node ends a
 * start that stands still but not one that is slow. @throws EngineError
 */
async function ready (
  { found: { name, description }, client, program, canary, env, clock, endMs }: Starting
): Promise<void> {
  const told = (): void => {
    if (clock.now() > endMs) throw new EngineError('load_failed', `${name}: its ranks did not meet in time`)
    env.progress(Math.min(Math.floor(program.processorSeconds), START_SECONDS - 1), START_SECONDS)
  }
  await program.until(async () => {
    told()
    const status = await client.status(description.ready)
    if (status === description.failed) {
      throw new EngineError('load_failed', `${name} could not load the model: ${program.said}`)
    }
    return status === OK
  }, POLL_MS)
  let end: { error?: unknown } | null = null
  canary(() => {}).then(() => { end = {} }, (error: unknown) => { end = { error } })
  await program.until(async () => {
    told()
    return await Promise.resolve(end !== null)
  }, POLL_MS)
  const { error } = end as unknown as { error?: unknown }
  if (error !== undefined) {
    throw new EngineError('load_failed', `${name} listens but does not generate: ${(error as Error).message}`)
  }
  env.progress(START_SECONDS, START_SECONDS)
}

/** Signs of work, which change: metrics, and on a CPU the CPU time in halves of a second. */
function signsOf (
  { description: { metrics } }: Found, client: Client, program: Program, backend: string
): () => Promise<string> {
  const computing = (): string => backend === 'cpu' ? (program.processorSeconds * 2).toFixed(0) : ''
  return async () => {
    if (metrics === undefined) return computing()
    const signal = AbortSignal.timeout(SIGNS_MS)
    const text = await client.text({ path: metrics.path, signal }).catch(() => '')
    const lines = text.split('\n').filter((line) => metrics.names.some((one) => line.startsWith(one)))
    return [computing(), ...lines].join('\n')
  }
}

export default programEngine({ clock: SYSTEM, die, echo: (line) => { process.stderr.write(`${line}\n`) } })

const MAX_CHARS = 1_000
const CONTEXT = /maximum context length (?:is|of) (\d+)/i
const PROMPT = /(?:contains(?: at least)?|requested a total of|has) (\d+)(?: input)? tokens/i
const REFUSED = [400, 413, 422]
const INTERNAL = 500

/**
 * The error for `{error: {message}}`, `{error: 'text'}` or FastAPI's `{detail}`. One in a stream has no
 * `status`; unless it names a fault of the request, the program may have failed as a whole.
 */
export function programError (
  body: unknown, { modelId, name }: { modelId: string, name: string }, status?: number
): Error {
  const { error, detail } = fieldsOf(body)
  const { message, code } = fieldsOf(error)
  const said = [message, error, detail, detail === undefined ? '' : JSON.stringify(detail)].map(textOf)
    .find((text) => text !== '') ?? `status ${status ?? 'unknown'} without a message`
  const words = withoutPaths(said).replace(/\s+/g, ' ').trim().slice(0, MAX_CHARS)
  const number = status ?? numberOf(code)
  const [, context] = CONTEXT.exec(words) ?? []
  if (context !== undefined) {
    const prompt = Number(PROMPT.exec(words)?.[1] ?? Number(context))
    return contextExceeded(modelId, prompt, Number(context))
  }
  if (number !== undefined && REFUSED.includes(number)) {
    return new EngineError('invalid_request', `${name} refused the request: ${words}`)
  }
  return status === undefined && (number ?? INTERNAL) >= INTERNAL
    ? new BrokenAnswer(`${name} failed: ${words}`)
    : new EngineError('provider_error', `${name} failed: ${words}`)
}
