/** The interface of voice families, which convert text to symbol ids, and symbol ids to samples. */
import type { CardVoice } from '../../../kernel/api/engine.js'

/** Length of the first piece in seconds, enough for one MP3 frame at every sampling rate. */
export const FIRST_PIECE_SECONDS = 0.12
/** Longest decoded piece in seconds, short enough for a quick reaction to cancellation. */
export const DECODE_SECONDS = 4

/**
 * Lengths of successive pieces in seconds: short at first for an immediate start, then doubled up to a limit.
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

/** A family's ranges for request fields that the schema does not bound. */
export interface Limits {
  /** Allowed multiples of the voice's normal speed. */
  speed: Range
  /** Allowed multiples of the voice's noise level; undefined if the family has no noise. */
  temperature: Range | undefined
}

export interface SpeechRequest {
  text: string, voice: string
  /** One of the family's language codes, or `ipa` if the text consists of phonemes. */
  language: string
  speed: number, temperature: number
  /** 0 to 2^32 - 1; undefined for the voice's default. */
  seed: number | undefined
  /** Limit on phoneme symbols in the whole answer; speech is cut off there. */
  maxSymbols: number
  /** Lengths of the pieces that `synth` returns. */
  pace: PieceLengths
}

export interface SpeechUnit {
  ids: number[]
  /** Number of phoneme symbols, including unknown ones. */
  symbols: number
  /** Seconds of silence before the next unit, at normal speed. */
  pauseSeconds: number
  /** Position of the unit in the answer, from 0. */
  index: number
}

export interface Family {
  sampleRate: number, voices: CardVoice[], defaultVoice: string, limits: Limits
  /** False if the graph draws noise that cannot be replaced; then a `seed` is refused. */
  seeded: boolean
  /** Whether single sentences are returned in pieces. */
  streams: boolean
  /** Resolves a voice id or a mix of ids; undefined if unknown. */
  findVoice (id: string): string | undefined
  /** Resolves a client's language code; undefined if not offered. */
  findLanguage (code: string | undefined, voice: string): string | undefined
  /** Language codes to list in error messages. */
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
