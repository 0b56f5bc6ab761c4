/** What the tests with the real llama.cpp have in common: its programs, models, and an engine with them. */
import '../../plugins/runners/test/process-plain-spawn.js'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { dirname, join } from 'node:path'
import { json } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { EngineSession, ModelCard } from '../../kernel/api/engine.js'
import { cardOf, folder, notingEnv, type Noted, type TestCase } from '../../plugins/chat/test/llama-kit.js'
import { llamaEngine } from '../../plugins/chat/llama/index.js'
import { writeModel, type Made } from './gguf.js'

/** The folder of the programs; run.mjs says it. */
export const programs = process.env['SVC_TEST_LLAMA'] ?? ''
const noPrograms = programs === '' && 'needs a real llama.cpp: npm run test:llama'
const sources = join(programs, '../../models')
const SHARED = process.env['SVC_TEST_SHARED'] ?? fileURLToPath(new URL('../../../shared', import.meta.url))
const stories = join(SHARED, 'data', 'stories260K')

/** Why a test cannot run that needs the small real model, or one that is made. */
export const skipStories = noPrograms ||
  (existsSync(join(stories, 's260k.gguf')) ? false : `needs the model files of ${SHARED}, which is absent`)
export const skipMade = noPrograms ||
  (existsSync(sources) ? false : `needs llama.cpp's source at ${dirname(sources)}, which is absent`)

/** A model's files and card. */
export interface Model { directory: string, card: ModelCard }

const fileOf = (path: string, bytes: number): Partial<ModelCard> =>
  ({ files: [{ path, role: 'weights', bytes }], totalBytes: bytes })

/** A small real model that tells stories. */
export const storyteller = (): Model => ({ directory: stories, card: cardOf({
  ...fileOf('s260k.gguf', 1_185_344), nLayers: 5, hiddenSize: 64, heads: 8, kvHeads: 4, headSize: 8,
  contextLength: 256
}) })

/** A template of llama.cpp's source. */
export const template = (name: string): string =>
  readFileSync(join(sources, 'templates', `${name}.jinja`), 'utf8')

/** A model with random weights, with a vocabulary of llama.cpp's source. */
export function madeModel (
  t: TestCase, { vocabulary = 'qwen2', ...made }: Partial<Made> = {}, card: Partial<ModelCard> = {}
): Model {
  const directory = folder(t)
  const from = join(sources, `ggml-vocab-${vocabulary}.gguf`)
  const bytes = writeModel(join(directory, 'm.gguf'), { ...made, vocabulary: from })
  const shape = { nLayers: 2, hiddenSize: 64, heads: 2, kvHeads: 2, headSize: 32, contextLength: 8192 }
  return { directory, card: cardOf({ ...fileOf('m.gguf', bytes), ...shape, ...card }) }
}

/** An engine that has loaded a model. */
export interface Real {
  session: EngineSession
  env: Noted
  /** Errors that would have ended the runner. */
  deaths: string[]
  pid: number
  /** Asks the server itself. */
  server: (path: string) => Promise<unknown>
}

/** What a server on the socket file of this folder answers. */
async function told (path: string, key: string): Promise<unknown> {
  const sent = request({ socketPath: 'llama.sock', path, headers: { authorization: `Bearer ${key}` } }).end()
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  return await json(answer)
}

/** Loads a model in this process, in a working folder of its own: one at a time. */
export async function loaded (
  t: TestCase, { directory, card }: Model, options: Record<string, unknown> = {}
): Promise<Real> {
  process.chdir(folder(t))
  const env = notingEnv()
  const deaths: string[] = []
  const engine = llamaEngine({
    clock: {
      now: () => performance.now(), pause: async (ms) => { await delay(ms, undefined, { ref: false }) }
    },
    die: (error) => { deaths.push(error.message) },
    echo: () => {}
  })
  const serverBinary = join(programs, 'llama-server')
  const spec = { card, directory, backend: 'cpu', threads: 1, options: { serverBinary, ...options } }
  const session = await engine.load(spec, env)
  t.teardown(() => session.close?.())
  const { client: { key } } = session as unknown as { client: { key: string } }
  return { session, env, deaths, pid: Number(session.info()['serverPid']), server: async (path) =>
    await told(path, key) }
}
