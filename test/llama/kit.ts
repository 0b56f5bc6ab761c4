/** The real llama.cpp for tests: its programs, models, and an engine that has loaded a model. */
import '../../plugins/runners/test/process-plain-spawn.js'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, readFileSync, statSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { dirname, join } from 'node:path'
import { json } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { EngineSession, ModelCard } from '../../kernel/api/engine.js'
import {
  cardOf, folder, notingEnv, type Noted, type TestCase
} from '../../plugins/llama-cpp/test/llama-kit.js'
import { llamaEngine } from '../../plugins/llama-cpp/server/index.js'
import { writeColours, writeVision } from './eyes.js'
import { writeModel, type ModelOptions } from './gguf.js'

/** Folder of llama.cpp's programs, set by run.mjs; empty without them. */
export const programs = process.env['SVC_TEST_LLAMA'] ?? ''
/** Skip reason for tests that need only llama.cpp's programs. */
export const noPrograms = programs === '' && 'needs a real llama.cpp: npm run test:llama'
const sources = join(programs, '../../models')
const SHARED = process.env['SVC_TEST_SHARED'] ?? fileURLToPath(new URL('../../../shared', import.meta.url))
const stories = join(SHARED, 'data', 'stories260K')

/** Skip reason for tests that need the small real model or a generated model. */
export const skipStories = noPrograms ||
  (existsSync(join(stories, 's260k.gguf')) ? false : `needs the model files of ${SHARED}, which is absent`)
export const skipGenerated = noPrograms ||
  (existsSync(sources) ? false : `needs llama.cpp's source at ${dirname(sources)}, which is absent`)

export interface Model { directory: string, card: ModelCard }

const fileOf = (path: string, bytes: number): Partial<ModelCard> =>
  ({ files: [{ path, role: 'weights', bytes }], totalBytes: bytes })

/** A small real model that tells stories. */
export const storyteller = (): Model => ({ directory: stories, card: cardOf({
  ...fileOf('s260k.gguf', 1_185_344), nLayers: 5, hiddenSize: 64, heads: 8, kvHeads: 4, headSize: 8,
  contextLength: 256
}) })

/** The story model with a drafter: a more quantised copy, which nearly always generates the same text. */
export function drafted (t: TestCase): Model {
  const directory = folder(t)
  const { card } = storyteller()
  copyFileSync(join(stories, 's260k.gguf'), join(directory, 's260k.gguf'))
  const path = 'draft-s260k.gguf'
  execFileSync(join(programs, 'llama-quantize'),
    ['--pure', join(directory, 's260k.gguf'), join(directory, path), 'Q4_0'], { stdio: 'pipe' })
  const { size: bytes } = statSync(join(directory, path))
  const files = [...card.files, { path, role: 'assistant' as const, bytes }]
  return { directory, card: { ...card, files, totalBytes: card.totalBytes + bytes } }
}

/** A chat template from llama.cpp's source. */
export const template = (name: string): string =>
  readFileSync(join(sources, 'templates', `${name}.jinja`), 'utf8')

/** A model with random weights and a vocabulary from llama.cpp's source. */
export function generatedModel (
  t: TestCase, { vocabulary = 'qwen2', ...made }: Partial<ModelOptions> = {}, card: Partial<ModelCard> = {}
): Model {
  const directory = folder(t)
  const from = join(sources, `ggml-vocab-${vocabulary}.gguf`)
  const bytes = writeModel(join(directory, 'm.gguf'), { ...made, vocabulary: from })
  const shape = { nLayers: 2, hiddenSize: 64, heads: 2, kvHeads: 2, headSize: 32, contextLength: 8192 }
  return { directory, card: cardOf({ ...fileOf('m.gguf', bytes), ...shape, ...card }) }
}

/** A model that names the colour of an image, in the folder layout that `svc pull` creates. */
export function colourModel (t: TestCase): Model {
  const directory = folder(t)
  const vocabulary = join(sources, 'ggml-vocab-qwen2.gguf')
  const weights = join(directory, 'm.gguf')
  const bytes = writeColours(weights, { vocabulary, template: template('Qwen-Qwen2.5-7B-Instruct') })
  const seeing = writeVision(join(directory, 'mmproj-m.gguf'))
  return { directory, card: cardOf({
    files: [
      { path: 'm.gguf', role: 'weights', bytes },
      { path: 'mmproj-m.gguf', role: 'vision_weights', bytes: seeing }
    ],
    totalBytes: bytes + seeing, nLayers: 2, hiddenSize: 64, heads: 2, kvHeads: 2, headSize: 32,
    contextLength: 8192
  }) }
}

/** An engine with a loaded model. */
export interface Real {
  session: EngineSession
  env: Noted
  /** Errors that would have ended the runner process. */
  deaths: string[]
  pid: number
  /** Sends a request directly to the engine's llama-server. */
  server: (path: string, body?: object) => Promise<unknown>
}

/** Sends a request to the llama-server whose socket file is in this folder. */
async function told (path: string, key: string, body?: object): Promise<unknown> {
  const method = body === undefined ? 'GET' : 'POST'
  const sent = request({
    socketPath: 'llama.sock', path, method, headers: { authorization: `Bearer ${key}` }
  }).end(body === undefined ? undefined : JSON.stringify(body))
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  return await json(answer)
}

/** Loads a model in this process, in a separate working folder; only one model at a time. */
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
  return { session, env, deaths, pid: Number(session.info()['serverPid']), server: async (path, body) =>
    await told(path, key, body) }
}
