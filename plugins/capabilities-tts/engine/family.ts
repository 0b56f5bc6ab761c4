/**
 * The one interface behind which families of voices differ: how text becomes symbol ids, and how ids become
 * samples. Everything else (validation, pacing, encoding) is shared.
 */
import type { CardVoice } from '../../../kernel/api/engine.js'
import type { Pace } from './pace.js'

/** Bounds of a request field, both included. */
export interface Range { min: number, max: number, integer?: boolean }

/** What a family honours of the fields that the schema leaves open. */
export interface Limits {
  /** Multiple of the voice's own speed. */
  speed: Range
  /** Multiple of the voice's own noise level; undefined where the family has no such thing. */
  temperature: Range | undefined
}

/** A request after validation: every field has a value this family honours. */
export interface SpeechRequest {
  text: string
  /** Id of a voice, or of a mix where the family has mixes. */
  voice: string
  /** One of the family's languages; `ipa` says that the text is phonemes already. */
  language: string
  speed: number
  temperature: number
  /** 0 to 2^32 - 1; undefined: the voice's own way. */
  seed: number | undefined
  /** Most phoneme symbols spoken in the whole answer. */
  maxSymbols: number
  /** Length of the pieces in which `synth` is to answer. */
  pace: Pace
}

/** One piece of text that is spoken in one breath. */
export interface SpeechUnit {
  ids: number[]
  /** Phoneme symbols in it, known to the voice or not. */
  symbols: number
  /** A pause fits behind it. */
  sentenceEnd: boolean
  /** Position in the answer, from 0. */
  index: number
}

/** A loaded voice model. */
export interface Family {
  sampleRate: number
  voices: CardVoice[]
  defaultVoice: string
  limits: Limits
  /** False where the graph draws noise that cannot be replaced: a `seed` is refused then. */
  seeded: boolean
  /** Silence between sentences, seconds. */
  pauseSeconds: number
  /** True where single sentences are answered in pieces. */
  streams: boolean
  /** Names a client may use for a voice beside the listed ids (mixes); undefined: no such voice. */
  findVoice (id: string): string | undefined
  /** The language for a code as clients write it; undefined: not offered. */
  findLanguage (code: string | undefined, voice: string): string | undefined
  /** Codes to show where a language is not offered. */
  languages (): string[]
  /**
   * Text to units, lazily: memory does not grow with the text.
   * @throws EngineError text_unspeakable, phonemizer_missing
   */
  prepare (text: string, request: SpeechRequest): Iterable<SpeechUnit>
  /** Samples of one unit in -1…1, in pieces of `request.pace`; ends early when `signal` aborts. */
  synth (unit: SpeechUnit, request: SpeechRequest, signal: AbortSignal): AsyncIterable<Float32Array>
  /** Reads what the text front end needs now instead of at the first word. */
  warmFront (): void
  close (): Promise<void>
}
