import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { EngineError, type CardVoice, type EngineEnv, type ModelSpec } from '../../../kernel/api/engine.js'
import { decodeModel, encodeModel, indexGraph } from '../../runners/onnx/engine.js'
import { warmUp } from '../text/front-end.js'
import type { Family } from './family.js'
import { isEnglish, isUnread, kokoroLanguage, languageCode, PHONEME_TYPES } from '../languages.js'
import { archivePack, archiveVoices, isArchive, packOf } from '../style-packs.js'
import { kokoroVocabulary, vocabularyOf } from '../vocabulary.js'
import { kokoroFamily } from './kokoro.js'
import {
  builtinFront, englishFront, espeakFront, findEspeak, phonemizerMissing, plainFront, type Espeak,
  type UnitSource
} from './phonemes.js'
import { seedNoise, createNoiseInputs } from './seeded-noise.js'
import { Sessions } from './sessions.js'
import { openFlite, openPiper, vitsFamily } from './vits.js'
import { readVoiceConfig, withEnglish, type VoiceConfig } from './voice-config.js'

interface LoadTools { env: EngineEnv, sessions: Sessions, findEspeak: () => Promise<Espeak | undefined> }

const LOADERS: Record<string, (spec: ModelSpec, tools: LoadTools) => Promise<Family>> = {
  flite: loadVits, piper: loadVits, kokoro: loadKokoro
}

/**
 * Loads the voice family that the card names; `espeak` looks for the optional phonemizer package.
 * @throws EngineError model_invalid, model_incomplete, no_backend, phonemizer_missing, language_unsupported
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

/** The card's first file with the role, otherwise its first file whose name has the ending. */
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
  const told = readVoiceConfig(await readJson(fileOf(spec, 'config', '.onnx.json')))
  const { front, english } = await vitsFront(spec, told, tools)
  const bundled = spec.card.family === 'flite'
  const config = english && !bundled ? withEnglish(told) : told
  const bytes = await read(path)
  env.progress(1, 3)
  const model = decode(bytes, path)
  const graph = bundled
    ? await openFlite(model, config, sessions)
    : await openPiper(model, path, config, sessions)
  env.progress(3, 3)
  const voices = vitsVoices(spec, config)
  return vitsFamily({
    graph, config, front, voices,
    warmFront: english ? warmUp : () => {},
    // The bundled voice inserts pauses itself, so it needs no pad symbols.
    pads: !bundled,
    sizes: { maxSymbols: 200, firstSymbols: bundled ? 120 : 60 },
    defaultVoice: String(spec.card.defaults['voice'] ?? voices[0]?.id)
  }, sessions)
}

function vitsVoices ({ card }: ModelSpec, config: VoiceConfig): CardVoice[] {
  const language = config.languages[0] ?? ''
  if (config.speakers.size === 0) return [card.voices[0] ?? { id: 'default', name: 'default', language }]
  const named = (id: string): CardVoice => card.voices.find((v) => v.id === id) ?? { id, name: id, language }
  return [...config.speakers.keys()].map(named)
}

/** The voice's front end; `english` is true for this plugin's own English front end. */
async function vitsFront (
  { card }: ModelSpec, config: VoiceConfig, tools: LoadTools
): Promise<{ front: UnitSource, english: boolean }> {
  if (config.phonemeType === 'text') return { front: plainFront, english: false }
  if (card.family === 'flite') return { front: builtinFront, english: true }
  if (!PHONEME_TYPES.includes(config.phonemeType)) {
    throw new EngineError('language_unsupported', `phoneme type "${config.phonemeType}" is not ` +
      `supported, only ${PHONEME_TYPES.join(' and ')}. Place another voice; \`svc search piper\` lists some`)
  }
  const language = config.languages[0] ?? config.espeakVoice
  const chosen = card.defaults['phonemizer'] ?? config.phonemizer
  if (isEnglish(language) && chosen !== 'espeak') {
    return { front: englishFront(accentOf(config)), english: true }
  }
  const espeak = await tools.findEspeak()
  if (espeak !== undefined) return { front: espeakFront(espeak, config.espeakVoice), english: false }
  const missing = phonemizerMissing(card.modelId, language)
  // A card may declare that clients send only phonemes.
  if (chosen === 'ipa') return { front: () => { throw missing }, english: false }
  throw missing
}

/** The most specific language code: a voice with the codes `en` and `en-gb` is British. */
const accentOf = ({ languages }: VoiceConfig): string => languages.find((code) => code.includes('-')) ?? 'en'

async function loadKokoro (spec: ModelSpec, tools: LoadTools): Promise<Family> {
  const { card } = spec
  const { env, sessions } = tools
  const packs = await readPacks(spec)
  env.progress(1, 3)
  const vocab = await readVocabulary(spec)
  const espeak = await tools.findEspeak()
  const voices = kokoroVoices(spec, packs.keys(), espeak !== undefined, env)
  const path = fileOf(spec, 'weights', '.onnx')
  const original = indexGraph(decode(await read(path), path))
  const { model, seeded, fed } = original.external
    ? { model: undefined, seeded: false, fed: false }
    : seedNoise(original)
  env.progress(2, 3)
  // onnxruntime reads an unmodified graph directly from its file, which takes less memory.
  const session = await sessions.open(fed && model !== undefined ? encodeModel(model) : path, 'the model')
  env.progress(3, 3)
  return kokoroFamily({
    session, vocab, packs, voices, espeak, seeded, noise: fed ? createNoiseInputs() : () => ({}),
    defaultVoice: String(card.defaults['voice'] ?? voices[0]?.id),
    builtin: card.defaults['phonemizer'] !== 'espeak', modelId: card.modelId
  }, sessions)
}

/** The model's voices; logs unusable ones. @throws EngineError phonemizer_missing if none works without it */
function kokoroVoices (
  { card }: ModelSpec, ids: Iterable<string>, espeak: boolean, env: EngineEnv
): CardVoice[] {
  const voices = [...ids].map((id) =>
    card.voices.find((v) => v.id === id) ?? { id, name: id, language: kokoroLanguage(id)?.code ?? '' })
  const unread = voices.filter(({ language }) => isUnread(languageCode(language)))
  if (unread.length > 0) {
    const message = `${card.modelId} has voices of languages that svc cannot read, with or without other ` +
      'packages: they speak another language that lang_code names'
    env.log('warn', message, { voices: unread.map(({ id }) => id) })
  }
  const silent = espeak ? [] : voices.filter((voice) =>
    voice.language !== '' && !isEnglish(voice.language) && !unread.includes(voice))
  if (silent.length > 0) {
    const languages = [...new Set(silent.map(({ language }) => languageCode(language)))].join(', ')
    const error = phonemizerMissing(card.modelId, languages)
    if (silent.length + unread.length === voices.length) throw error
    env.log('warn', error.message, { voices: silent.length })
  }
  return voices
}

async function readPacks ({ card, directory }: ModelSpec): Promise<Map<string, Float32Array>> {
  const named = card.files.filter(({ role }) => role === 'voice' || role === 'voices')
  const files = named.length > 0 ? named : card.files.filter(({ path }) => path.endsWith('.bin'))
  const packs = new Map<string, Float32Array>()
  for (const { path } of files) {
    const bytes = await read(join(directory, path))
    try {
      if (!isArchive(bytes)) packs.set(basename(path, '.bin'), packOf(bytes, basename(path)))
      else for (const entry of archiveVoices(bytes, 0)) packs.set(entry.voice, archivePack(bytes, entry))
    } catch (error) {
      throw new EngineError('model_invalid', `${basename(path)}: ${(error as Error).message}`)
    }
  }
  const missing = card.voices.filter(({ id }) => !packs.has(id)).map(({ id }) => id)
  if (packs.size === 0 || missing.length > 0) {
    const what = missing.length === 0 ? 'any voice' : missing.slice(0, 10).join(', ')
    throw new EngineError('model_incomplete', `${card.modelId} has no style pack of ${what}. ` +
      `Run \`svc pull ${card.modelId}\` again, with its voices`)
  }
  return packs
}

/** The vocabulary in the first file that has one, else Kokoro-82M v1.0's vocabulary. */
async function readVocabulary ({ card, directory }: ModelSpec): Promise<Map<string, number>> {
  for (const { path } of card.files) {
    if (!/^(config|tokenizer)\.json$/.test(basename(path))) continue
    const found = vocabularyOf(await readJson(join(directory, path)))
    if (found !== undefined) return found
  }
  return kokoroVocabulary()
}
