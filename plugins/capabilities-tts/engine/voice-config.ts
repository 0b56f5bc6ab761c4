/** Validates and normalises a Piper voice's `.onnx.json`. */
import { EngineError } from '../../../kernel/api/engine.js'
import { languageCode } from '../languages.js'
import { symbolSubstitutes } from '../text/symbols.js'

export interface VoiceConfig {
  sampleRate: number
  idMap: Map<string, number[]>
  phonemeMap: Map<string, string[]>
  phonemeType: string, espeakVoice: string
  /** `espeak`: use espeak for English too; `ipa`: clients send phonemes, so no phonemizer is needed. */
  phonemizer: string | undefined
  noiseScale: number, lengthScale: number, noiseW: number
  /** Speaker id by name; empty for a single speaker. */
  speakers: Map<string, number>
  /** Language codes in lower case, such as en-us and en. */
  languages: string[]
}

type Json = Record<string, unknown>

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const invalid = (message: string): EngineError => new EngineError(
  'model_invalid', `voice configuration: ${message}`
)

function child (json: Json, key: string): Json {
  const value = json[key] ?? {}
  if (!isObject(value)) throw invalid(`${key} must be an object`)
  return value
}

function number (json: Json, key: string, fallback?: number): number {
  const value = json[key] ?? fallback
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw invalid(`${key} must be a number, not ${String(value)}`)
}

const text = (json: Json, key: string, fallback: string): string =>
  typeof json[key] === 'string' ? json[key] : fallback

function idMap (json: Json): Map<string, number[]> {
  const map = new Map<string, number[]>()
  for (const [symbol, ids] of Object.entries(child(json, 'phoneme_id_map'))) {
    const list = Array.isArray(ids) ? ids : [ids]
    if (!list.every(
      (id) => Number.isInteger(id)
    )) throw invalid(`phoneme_id_map["${symbol}"] must be a list of integers`)
    map.set(symbol, list as number[])
  }
  for (const mark of ['_', '^', '$']) if (!map.has(mark)) throw invalid(`phoneme_id_map has no "${mark}"`)
  return map
}

function speakers (json: Json): Map<string, number> {
  const count = number(json, 'num_speakers', 1)
  if (count <= 1) return new Map()
  const named = Object.entries(child(json, 'speaker_id_map')).map(([name, id]) => [name, Number(id)] as const)
  if (named.length > 0) return new Map(named)
  return new Map(Array.from({ length: count }, (_, i) => [String(i), i]))
}

/** @throws EngineError model_invalid naming the invalid key */
export function readVoiceConfig (json: unknown): VoiceConfig {
  if (!isObject(json)) throw invalid('must be a JSON object')
  const inference = child(json, 'inference')
  const language = child(json, 'language')
  const espeakVoice = text(child(json, 'espeak'), 'voice', '')
  const codes = [espeakVoice, text(language, 'code', ''), text(language, 'family', '')]
  return {
    sampleRate: number(child(json, 'audio'), 'sample_rate'),
    idMap: idMap(json),
    phonemeMap: new Map(
      Object.entries(child(json, 'phoneme_map')).map(([k, v]) => [k, (v as unknown[]).map(String)])
    ),
    phonemeType: text(json, 'phoneme_type', 'espeak'),
    espeakVoice,
    phonemizer: typeof json['phonemizer'] === 'string' ? json['phonemizer'] : undefined,
    noiseScale: number(inference, 'noise_scale', 0.667),
    lengthScale: number(inference, 'length_scale', 1),
    noiseW: number(inference, 'noise_w', 0.8),
    speakers: speakers(json),
    languages: [...new Set(codes.filter((code) => code !== '').map(languageCode))]
  }
}

/**
 * Symbol ids of a phoneme string: `^`, the phonemes, `$`, and with `pads` the pad `_` between them. Phonemes
 * are NFD code points; unknown ones are skipped.
 */
export function phonemeIds (config: VoiceConfig, phonemes: string, pads: boolean): number[] {
  const id = (symbol: string): number[] => config.idMap.get(symbol) ?? []
  const pad = pads ? id('_') : []
  const ids = [...id('^'), ...pad]
  for (const symbol of phonemes.normalize('NFD')) {
    for (const mapped of config.phonemeMap.get(symbol) ?? [symbol]) {
      const found = id(mapped)
      if (found.length > 0) ids.push(...found, ...pad)
    }
  }
  return [...ids, ...id('$')]
}

/**
 * Adds substitutes for missing English symbols. @throws EngineError model_invalid if one has no substitute
 */
export function withEnglish (config: VoiceConfig): VoiceConfig {
  const { found, missing } = symbolSubstitutes(new Set(config.idMap.keys()))
  if (missing.length > 0) {
    throw invalid(`phoneme_id_map has no ${missing.join(' ')}: it is not one of an English voice`)
  }
  const phonemeMap = new Map([...found].map(([symbol, other]) => [symbol, [...other]]))
  return { ...config, phonemeMap: new Map([...phonemeMap, ...config.phonemeMap]) }
}
