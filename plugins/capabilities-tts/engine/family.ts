/** The interface of voice families: text to symbol ids to samples. All else is shared. */
import type { CardVoice } from '../../../kernel/api/engine.js'

/** Seconds of the first piece: one MP3 frame comes out of it at every sampling rate. */
export const FIRST_PIECE_SECONDS = 0.12
/** Seconds of the longest decoded piece: well under a second of work at real-time speed. */
export const DECODE_SECONDS = 4

/**
 * Lengths of successive pieces, in seconds: a short one for an immediate start, then doubling to a limit.
 * Chunks grow to the requested interval, decoded pieces further, since each has an overlap.
 */
export class PieceLengths {
  private seconds: number
  private readonly limit: number

  constructor (first: number, limit: number) {
    this.limit = limit
    this.seconds = Math.min(first, limit)
  }

  next (): number {
    const now = this.seconds
    this.seconds = Math.min(now * 2, this.limit)
    return now
  }
}

export interface Range { min: number, max: number, integer?: boolean }

/** Bounds of a family for the open fields of the schema. */
export interface Limits {
  /** Multiple of the voice's own speed. */
  speed: Range
  /** Multiple of the voice's own noise level; undefined where the family has no such thing. */
  temperature: Range | undefined
}

/** A request after validation: every field has a value that the family accepts. */
export interface SpeechRequest {
  text: string
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
  pace: PieceLengths
}

export interface SpeechUnit {
  ids: number[]
  /** Phoneme symbols in it, known to the voice or not. */
  symbols: number
  /** A pause fits behind it. */
  sentenceEnd: boolean
  /** Position in the answer, from 0. */
  index: number
}

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
  /** Text to units, lazily, in constant memory. @throws EngineError text_unspeakable, phonemizer_missing */
  prepare (text: string, request: SpeechRequest): Iterable<SpeechUnit>
  /** Samples of one unit in -1…1, in pieces of `request.pace`; ends early when `signal` aborts. */
  synth (unit: SpeechUnit, request: SpeechRequest, signal: AbortSignal): AsyncIterable<Float32Array>
  /** Reads what the text front end needs now instead of at the first word. */
  warmFront (): void
  close (): Promise<void>
}
