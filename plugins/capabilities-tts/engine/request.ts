/** Converts a payload to a request: checks the voice's ranges, and reports all problems together. */
import { EngineError, type ModelCard } from '../../../kernel/api/engine.js'
import { ENCODINGS, type Encoding } from './encoder.js'
import {
  DECODE_SECONDS, FIRST_PIECE_SECONDS, PieceLengths, type Family, type Range, type SpeechRequest
} from './family.js'
import { LOUDNESS, LOUDNESS_RANGE } from './loudness.js'

/** Accepted `streaming_interval` in seconds, from about one MP3 frame to a few MB of samples. */
const INTERVAL: Range = { min: 0.04, max: 60 }
const DEFAULT_INTERVAL = 1

export interface SpeechTask {
  request: SpeechRequest, encoding: Encoding, interval: number
  /** RMS in dBFS; null for the voice's own. */
  loudness: number | null
  /** Seconds of silence that replace a text without words; undefined if that is an error. */
  silence?: number | undefined
}

class PayloadReader {
  readonly issues: { path: string, message: string }[] = []
  private readonly payload: Record<string, unknown>

  constructor (payload: Record<string, unknown>) { this.payload = payload }

  fail (field: string, message: string): void { this.issues.push({ path: field, message }) }

  string (field: string): string | undefined {
    const value = this.payload[field]
    if (value === undefined || typeof value === 'string') return value
    this.fail(field, `${field} must be a string`)
    return undefined
  }

  /** Clamps a number, for fields without documented bounds. */
  nearest (field: string, fallback: number, { min, max }: Range): number {
    const value = this.payload[field]
    return typeof value === 'number' ? Math.min(max, Math.max(min, value)) : fallback
  }

  /** Reads a number within an inclusive range; `what` is the model or voice that the error message names. */
  number (field: string, fallback: number, range: Range, what: string): number {
    const value = this.payload[field]
    if (value === undefined) return fallback
    const inside = typeof value === 'number' && value >= range.min && value <= range.max
    if (inside && (range.integer !== true || Number.isInteger(value))) return value
    const kind = range.integer === true ? 'a whole number' : 'a number'
    const bounds = `${kind} from ${range.min} to ${range.max}`
    this.fail(field, `${field} is ${String(value)}, but ${what} accepts ${bounds}`)
    return fallback
  }
}

function readVoice (reader: PayloadReader, family: Family, model: string): string {
  const wanted = reader.string('voice')
  if (wanted === undefined) return family.defaultVoice
  const found = family.findVoice(wanted)
  if (found !== undefined) return found
  const voices = family.voices.map((v) => v.id).join(', ')
  reader.fail('voice', `${model} has no voice "${wanted}": it has ${voices}`)
  return family.defaultVoice
}

function readLanguage (reader: PayloadReader, family: Family, model: string, voice: string): string {
  // An empty `lang_code` selects the voice's own language.
  const wanted = reader.string('lang_code') || undefined
  const found = family.findLanguage(wanted, voice)
  if (found !== undefined) return found
  const asked = wanted === undefined
    ? `voice "${voice}" has a language that svc cannot read: set lang_code to another`
    : `lang_code "${wanted}"`
  reader.fail('lang_code', `${asked}: ${model} speaks ${family.languages().join(', ')}`)
  return ''
}

function readSeed (reader: PayloadReader, family: Family, given: unknown, model: string): number | undefined {
  if (given === undefined) return undefined
  if (family.seeded) return reader.number('seed', 0, { min: 0, max: 4_294_967_295, integer: true }, model)
  reader.fail('seed', `${model} uses noise that cannot be seeded: leave out seed`)
  return undefined
}

function readEncoding (reader: PayloadReader): Encoding {
  const wanted = reader.string('encoding') ?? reader.string('response_format') ?? 'mp3'
  const found = ENCODINGS.find((encoding) => encoding === wanted)
  if (found !== undefined) return found
  reader.fail('response_format', `"${wanted}" is not supported, only ${ENCODINGS.join(', ')}`)
  return 'mp3'
}

const ANY_COUNT: Range = { min: 1, max: Number.MAX_SAFE_INTEGER, integer: true }

/**
 * Reads a `tts` payload for one voice. Ignores `top_p`, `top_k`, `repetition_penalty` and `instruct`, as the
 * cards document. @throws EngineError invalid_payload with `issues: [{path, message}]`
 */
export function readRequest (payload: Record<string, unknown>, family: Family, card: ModelCard): SpeechTask {
  const reader = new PayloadReader(payload)
  const model = card.modelId
  const text = reader.string('text') ?? ''
  if (text === '') reader.fail('text', 'text must not be empty')
  const voice = readVoice(reader, family, model)
  const interval = reader.number('streaming_interval', DEFAULT_INTERVAL, INTERVAL, model)
  const { speed, temperature } = family.limits
  const request: SpeechRequest = {
    text, voice, language: readLanguage(reader, family, model, voice),
    speed: reader.number('speed', 1, speed, model),
    temperature: temperature === undefined ? 1 : reader.nearest('temperature', 1, temperature),
    seed: readSeed(reader, family, payload['seed'], model),
    maxSymbols: reader.number('max_tokens', Infinity, ANY_COUNT, model),
    pace: new PieceLengths(Math.min(FIRST_PIECE_SECONDS, interval), DECODE_SECONDS)
  }
  const encoding = readEncoding(reader)
  const loudness = (payload['loudness'] ?? null) === null
    ? null
    : reader.number('loudness', LOUDNESS, LOUDNESS_RANGE, model)
  if (reader.issues.length > 0) {
    throw new EngineError('invalid_payload', reader.issues.map((i) => i.message).join('; '), {
      issues: reader.issues, param: reader.issues[0]!.path,
      remedy: `\`svc show ${model}\` lists the supported values.`
    })
  }
  return { request, encoding, interval, loudness, silence: payload['silence'] as number | undefined }
}
