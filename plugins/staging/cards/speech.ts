/** Text-to-speech models: Piper voices and Kokoro. */
import type { CardVoice } from '../../../kernel/index.js'
import { supportOf } from '../../capabilities-tts/service.js'
import { child, count, isObject, text, type Folder, type Json } from './folder.js'
import type { Found } from './found.js'
import type { OnnxHeader } from '../../onnx/service.js'
import { chooseGraph, suffixOf, weightsOf } from './onnx-facts.js'
import { CardError } from './reader.js'

const VOICES = 4096
/** Symbols a voice is given at once, and tokens of Kokoro's context. */
const PIPER_SYMBOLS = 200
const KOKORO_TOKENS = 510
/** Bytes of a row of a style pack. */
const STYLE_ROW = 1024

/** What all speech models have in common. */
const speech = { tasks: ['tts'], engine: 'onnx-tts', backends: ['cpu'], nLayers: 1 }

/** Languages by the first letter of a Kokoro voice. */
const KOKORO_LANGUAGES: Readonly<Record<string, string>> = {
  a: 'en-us', b: 'en-gb', e: 'es', f: 'fr-fr', h: 'hi', i: 'it', j: 'ja', p: 'pt-br', z: 'zh'
}

const languageCode = (code: string): string => code.toLowerCase().replaceAll('_', '-')

function needs (path: string, header: OnnxHeader, names: readonly string[]): void {
  const has = header.inputs.map((input) => input.name)
  const missing = names.filter((name) => !has.includes(name))
  if (missing.length === 0) return
  throw new CardError(`${path} has no input ${missing.join(', ')}: it has ${has.slice(0, 20).join(', ')}`)
}

/** A Piper voice: a graph with its settings beside it. Undefined: the folder holds none. @throws CardError */
export async function findPiper (folder: Folder): Promise<Found | undefined> {
  const voices: [string, Json][] = []
  for (const path of folder.matching(/\.onnx$/)) {
    const json = await folder.json(`${path}.json`)
    const rate = count(child(json ?? {}, 'audio'), 'sample_rate')
    if (json === undefined || rate === undefined || !isObject(json['phoneme_id_map'])) continue
    voices.push([path, json])
  }
  const [first, ...others] = voices
  if (first === undefined) return undefined
  if (others.length > 0) {
    const names = voices.slice(0, 5).map(([path]) => path).join(', ')
    throw new CardError(`it holds ${voices.length} voices (${names}): a model is one of them. ` +
      'Choose one by a pattern of its files.')
  }
  return await piperFacts(folder, ...first)
}

async function piperFacts (folder: Folder, path: string, json: Json): Promise<Found> {
  const header = await folder.onnx(path)
  needs(path, header, ['input', 'input_lengths', 'scales'])
  // The voice that ships with svc names its origin; its graph has Piper's inputs.
  const family = /^flite\b/.test(text(json, 'dataset') ?? '') ? 'flite' : 'piper'
  const { code, family: wide } = child(json, 'language')
  const codes = [code, child(json, 'espeak')['voice'], wide]
    .filter((name): name is string => typeof name === 'string' && name.length > 0 && name.length <= 40)
    .map(languageCode)
  const language = codes[0] ?? ''
  const voices = piperVoices(json, language)
  const rate = count(child(json, 'audio'), 'sample_rate')
  return {
    ...speech,
    description: `Voice in Piper's format (${language === '' ? 'language not stated' : language}), ` +
      `${voices.length === 1 ? '1 speaker' : `${voices.length} speakers`}, ${rate} Hz.`,
    family,
    roles: new Map([...weightsOf(path, header), [`${path}.json`, 'config']]),
    contextLength: PIPER_SYMBOLS,
    quantization: suffixOf(header, path),
    languages: [...new Set(codes)],
    voices,
    defaults: { voice: voices[0]!.id, speed: 1, temperature: 1, streaming_interval: 1 },
    support: supportOf(family)
  }
}

function piperVoices (json: Json, language: string): CardVoice[] {
  const speakers = count(json, 'num_speakers') ?? 1
  const named = Object.keys(child(json, 'speaker_id_map'))
  if (speakers === 1) return [{ id: 'default', name: text(json, 'dataset', 100) ?? 'default', language }]
  const most = Math.max(speakers, named.length)
  if (most > VOICES) throw new CardError(`a voice of ${most} speakers: ${VOICES} are the most`)
  const ids = named.length > 0 ? named : Array.from({ length: speakers }, (_, i) => String(i))
  return ids.map((id) => ({ id, name: id, language }))
}

/** Kokoro: a graph, style packs and a vocabulary. Undefined: the folder holds none. @throws CardError */
export async function findKokoro (folder: Folder): Promise<Found | undefined> {
  const packs = folder.matching(/(^|\/)voices\/[^/]+\.bin$/)
  const graphs = folder.matching(/\.onnx$/)
  const config = await folder.json('config.json')
  if (packs.length === 0 || graphs.length === 0 || config === undefined) return undefined
  const kokoro = 'n_token' in config || 'istftnet' in config
  if (!kokoro && text(config, 'model_type') !== 'style_text_to_speech_2') return undefined
  if (!isObject(config['vocab'])) {
    throw new CardError('it looks like Kokoro (voices/*.bin), but config.json has no "vocab": ' +
      'put the config.json of the original model (hexgrad/Kokoro-82M) in its place')
  }
  return await kokoroFacts(folder, chooseGraph(folder, graphs)!, packs)
}

async function kokoroFacts (folder: Folder, path: string, packs: string[]): Promise<Found> {
  const header = await folder.onnx(path)
  const tokens = header.inputs.some(({ name }) => name === 'tokens') ? 'tokens' : 'input_ids'
  needs(path, header, [tokens, 'style', 'speed'])
  for (const pack of packs) {
    // Only their length is looked at: files of this ending may be something else.
    const bytes = folder.size(pack)
    if (bytes === 0 || bytes % STYLE_ROW !== 0) {
      throw new CardError(`style pack ${pack} has ${bytes} bytes, not a multiple of ${STYLE_ROW}`)
    }
  }
  const voices = packs.map(kokoroVoice).slice(0, VOICES)
  const languages = [...new Set(voices.map(({ language }) => language).filter((code) => code !== ''))]
  return {
    ...speech,
    description: `Kokoro with ${voices.length} voices, 24,000 Hz.`,
    family: 'kokoro',
    roles: new Map([
      ...weightsOf(path, header), ['config.json', 'config'],
      ...packs.map((pack): [string, string] => [pack, 'voice'])
    ]),
    contextLength: KOKORO_TOKENS,
    quantization: suffixOf(header, path),
    languages,
    voices,
    defaults: {
      voice: voices.find(({ id }) => id === 'af_heart')?.id ?? voices[0]!.id, speed: 1, streaming_interval: 1
    },
    support: supportOf('kokoro')
  }
}

/** `af_heart` is Heart, a female voice of American English. */
function kokoroVoice (path: string): CardVoice {
  const id = path.slice(path.lastIndexOf('/') + 1, -'.bin'.length)
  const [, letter, sex, name] = /^([a-z])([fm])_(.+)$/.exec(id) ?? []
  if (letter === undefined || name === undefined) return { id, name: id, language: '' }
  const shown = `${name.slice(0, 1).toUpperCase()}${name.slice(1)} (${sex === 'f' ? 'female' : 'male'})`
  return { id, name: shown, language: KOKORO_LANGUAGES[letter] ?? '' }
}
