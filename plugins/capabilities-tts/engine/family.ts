/** The interface of voice families, which convert text to symbol ids and those to samples. */
import type { CardVoice } from '../../../kernel/api/engine.js'

/** Length of the first piece, seconds: yields one MP3 frame at every sampling rate. */
export const FIRST_PIECE_SECONDS = 0.12
/** Longest decoded piece, seconds: well under a second of computing at real-time speed. */
export const DECODE_SECONDS = 4

/**
 * Lengths of successive pieces, seconds: short at first for an immediate start, then doubled up to a limit.
 * Chunks grow to the requested interval; decoded pieces grow further, because each has an overlap.
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

/** A family's ranges for fields without bounds in the schema. */
export interface Limits {
  /** Multiple of the voice's speed. */
  speed: Range
  /** Multiple of the voice's noise level; undefined if the family has none. */
  temperature: Range | undefined
}

/** A validated request. */
export interface SpeechRequest {
  text: string
  voice: string
  /** One of the family's languages; `ipa` for text that is phonemes. */
  language: string
  speed: number
  temperature: number
  /** 0 to 2^32 - 1; undefined for the voice's default. */
  seed: number | undefined
  /** Most phoneme symbols in the whole answer. */
  maxSymbols: number
  /** Lengths of the pieces that `synth` returns. */
  pace: PieceLengths
}

export interface SpeechUnit {
  ids: number[]
  /** Number of phoneme symbols, including unknown ones. */
  symbols: number
  /** A pause may follow. */
  sentenceEnd: boolean
  /** Index in the answer. */
  index: number
}

export interface Family {
  sampleRate: number
  voices: CardVoice[]
  defaultVoice: string
  limits: Limits
  /** False if the graph draws noise that cannot be replaced; then a `seed` is refused. */
  seeded: boolean
  /** Silence between sentences, seconds. */
  pauseSeconds: number
  /** Whether single sentences are returned in pieces. */
  streams: boolean
  /** Resolves a voice id or a mix of ids; undefined if unknown. */
  findVoice (id: string): string | undefined
  /** Resolves a client's language code; undefined if not offered. */
  findLanguage (code: string | undefined, voice: string): string | undefined
  /** Codes for error messages. */
  languages (): string[]
  /**
   * Converts text to units, lazily, in constant memory. @throws EngineError text_unspeakable,
   * phonemizer_missing
   */
  prepare (text: string, request: SpeechRequest): Iterable<SpeechUnit>
  /** Samples of one unit in -1…1, in pieces of `request.pace`; stops when `signal` aborts. */
  synth (unit: SpeechUnit, request: SpeechRequest, signal: AbortSignal): AsyncIterable<Float32Array>
  /** Loads the text front end's data before the first word. */
  warmFront (): void
  close (): Promise<void>
}
