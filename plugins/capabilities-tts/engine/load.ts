/** From a model's files to a loaded family. */
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { EngineError, type CardVoice, type EngineEnv, type ModelSpec } from '../../../kernel/api/engine.js'
import { decodeModel, encodeModel, indexGraph } from '../../onnx/engine.js'
import { warmUp } from '../text/front-end.js'
import type { Family } from './family.js'
import { kokoroFamily, readStylePack } from './kokoro.js'
import {
  builtinFront, espeakFront, findEspeak, phonemizerMissing, plainFront, type Espeak, type Front
} from './phonemes.js'
import { seedNoise, tableNoise } from './seeded-noise.js'
import { Sessions } from './sessions.js'
import { openFlite, openPiper, vitsFamily } from './vits.js'
import { readVoiceConfig, type VoiceConfig } from './voice-config.js'

/** What loading needs beside the spec. */
interface LoadTools { env: EngineEnv, sessions: Sessions, findEspeak: () => Promise<Espeak | undefined> }

/** A row for each family. */
const LOADERS: Record<string, (spec: ModelSpec, tools: LoadTools) => Promise<Family>> = {
  flite: loadVits, piper: loadVits, kokoro: loadKokoro
}

/**
 * Loads the family that the card names; `espeak` finds the optional package.
 * @throws EngineError model_invalid, model_incomplete, no_backend
 */
export async function loadFamily (
  spec: ModelSpec, env: EngineEnv, espeak: LoadTools['findEspeak'] = findEspeak
): Promise<Family> {
  const loader = LOADERS[spec.card.family]
  if (loader === undefined) {
    throw new EngineError('model_invalid', `engine onnx-tts has no family "${spec.card.family}": ` +
      `it has ${Object.keys(LOADERS).join(', ')}`)
  }
  return await loader(spec, { env, sessions: new Sessions(spec, env), findEspeak: espeak })
}

/** Path of the first file with that role, or else with that ending. */
function fileOf (spec: ModelSpec, role: string, ending: string): string {
  const { files, modelId } = spec.card
  const file = files.find((f) => f.role === role) ?? files.find((f) => f.path.endsWith(ending))
  if (file !== undefined) return join(spec.directory, file.path)
  throw new EngineError(
    'model_incomplete', `the card of ${modelId} lists no file with role ${role} or ending ${ending}`
  )
}

async function read (path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new EngineError('model_incomplete', `cannot read ${basename(path)}: ${(error as Error).message}. ` +
      'Stage the model again.')
  }
}

async function readJson (path: string): Promise<unknown> {
  try {
    return JSON.parse((await read(path)).toString('utf8'))
  } catch (error) {
    if (error instanceof EngineError) throw error
    throw new EngineError('model_invalid', `${basename(path)} is not JSON: ${(error as Error).message}`)
  }
}

function decode (bytes: Uint8Array, path: string): ReturnType<typeof decodeModel> {
  try {
    return decodeModel(bytes)
  } catch (error) {
    throw new EngineError(
      'model_invalid', `${basename(path)} is not an ONNX file: ${(error as Error).message}`
    )
  }
}

async function loadVits (spec: ModelSpec, tools: LoadTools): Promise<Family> {
  const { env, sessions } = tools
  const path = fileOf(spec, 'weights', '.onnx')
  const config = readVoiceConfig(await readJson(fileOf(spec, 'config', '.onnx.json')))
  const bytes = await read(path)
  env.progress(1, 3)
  const bundled = spec.card.family === 'flite'
  const model = decode(bytes, path)
  const graph = bundled
    ? await openFlite(model, config, sessions)
    : await openPiper(model, path, config, sessions)
  env.progress(2, 3)
  const front = await vitsFront(spec, config, tools)
  env.progress(3, 3)
  const voices = vitsVoices(spec, config)
  return vitsFamily({
    graph, config, front, voices,
    warmFront: front === builtinFront ? warmUp : () => {},
    // The bundled voice makes the silence between sentences itself, and drops pads.
    pads: !bundled,
    pauseSeconds: bundled ? 0 : 0.2,
    sizes: { maxSymbols: 200, firstSymbols: bundled ? 120 : 60 },
    defaultVoice: String(spec.card.defaults['voice'] ?? voices[0]?.id)
  }, sessions)
}

/** Speakers of the configuration, named as the card names them. */
function vitsVoices ({ card }: ModelSpec, config: VoiceConfig): CardVoice[] {
  const language = config.languages[0] ?? ''
  if (config.speakers.size === 0) return [card.voices[0] ?? { id: 'default', name: 'default', language }]
  const named = (id: string): CardVoice => card.voices.find((v) => v.id === id) ?? { id, name: id, language }
  return [...config.speakers.keys()].map(named)
}

async function vitsFront ({ card }: ModelSpec, config: VoiceConfig, tools: LoadTools): Promise<Front> {
  if (config.phonemeType === 'text') return plainFront
  const builtin = card.family === 'flite' || (card.defaults['phonemizer'] ?? config.phonemizer) === 'builtin'
  if (builtin && config.languages.some((code) => code.startsWith('en'))) return builtinFront
  if (config.phonemeType !== 'espeak') {
    throw new EngineError(
      'model_invalid', `phoneme type "${config.phonemeType}" is not supported: espeak and text are`
    )
  }
  const espeak = await tools.findEspeak()
  if (espeak === undefined) return () => { throw phonemizerMissing(card.modelId) }
  return espeakFront(espeak, config.espeakVoice)
}

async function loadKokoro (spec: ModelSpec, tools: LoadTools): Promise<Family> {
  const { card } = spec
  const { env, sessions } = tools
  const packs = await readPacks(spec)
  env.progress(1, 3)
  const vocab = readVocab(await readJson(fileOf(spec, 'config', 'config.json')))
  const path = fileOf(spec, 'weights', '.onnx')
  const original = indexGraph(decode(await read(path), path))
  const { model, seeded, fed } = original.external
    ? { model: undefined, seeded: false, fed: false }
    : seedNoise(original)
  env.progress(2, 3)
  // A graph that stays as it is is read by onnxruntime itself, which needs less memory.
  const session = await sessions.open(fed && model !== undefined ? encodeModel(model) : path, 'the model')
  env.progress(3, 3)
  const voices = [...packs.keys()].map(
    (id) => card.voices.find((v) => v.id === id) ?? { id, name: id, language: id.slice(0, 1) }
  )
  const espeak = await tools.findEspeak()
  return kokoroFamily({
    session, vocab, packs, voices, espeak, seeded,
    noise: fed ? tableNoise() : () => ({}),
    defaultVoice: String(card.defaults['voice'] ?? voices[0]?.id),
    builtin: card.defaults['phonemizer'] === 'builtin',
    modelId: card.modelId
  }, sessions)
}

async function readPacks ({ card, directory }: ModelSpec): Promise<Map<string, Float32Array>> {
  const files = card.files.filter((file) => file.role === 'voice' || file.path.endsWith('.bin'))
  if (files.length === 0) {
    throw new EngineError('model_incomplete', `the card of ${card.modelId} lists no style pack (.bin)`)
  }
  const packs = new Map<string, Float32Array>()
  for (const { path } of files) {
    packs.set(basename(path, '.bin'), readStylePack(await read(join(directory, path)), basename(path)))
  }
  return packs
}

function readVocab (json: unknown): Map<string, number> {
  const vocab = (json as { vocab?: unknown } | null)?.vocab
  if (typeof vocab === 'object' && vocab !== null && Object.values(vocab).every(Number.isInteger)) {
    return new Map(Object.entries(vocab as Record<string, number>))
  }
  throw new EngineError(
    'model_invalid', 'config.json of a Kokoro model must have a vocab of characters to integers'
  )
}
