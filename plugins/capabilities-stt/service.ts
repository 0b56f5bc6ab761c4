/** Speech to text for other plugins, and the format of its engine's answers. */
import { defineService, type CapabilityCall, type ModelCard } from '../../kernel/index.js'

/** The payload of an engine's task. Its input is the sound. */
export interface SttPayload {
  /** `file`: any audio file; `pcm`: 16-bit little-endian mono samples. */
  format: 'file' | 'pcm'
  /** Of `pcm`: 8,000 to 48,000 Hz; 16,000 when absent. */
  sample_rate?: number
  task?: 'transcribe' | 'translate'
  /** ISO 639-1 code of the speech; detected when absent. */
  language?: string
  /** Text before the sound, an example of the wanted names and spelling. */
  prompt?: string
  temperature?: number
  words?: boolean
  logprobs?: boolean
  /** The sound arrives while it is spoken, so turns are found and their text comes early. */
  live?: boolean
  /** Of `live`: whether unfinished turns have a text. */
  partials?: boolean
  /** Of `live`: how turns are found. */
  turn?: { threshold?: number, prefix_padding_ms?: number, silence_duration_ms?: number }
}

/** Times are in seconds from the start of the sound. */
export interface SttSegment {
  id: number
  start: number
  end: number
  text: string
  tokens: number[]
  temperature: number
  avg_logprob: number
  compression_ratio: number
  no_speech_prob: number
  words?: { word: string, start: number, end: number }[]
  logprobs?: { token: string, logprob: number, bytes: number[] }[]
  /** Of `live`: true for the last segment of a turn. */
  final?: boolean
}

export type SttEvent =
  | { event: 'language', language: string }
  | { event: 'speech_started' | 'speech_stopped', at: number }
  | { event: 'partial', text: string, start: number }
  | { event: 'segment' } & SttSegment
  | { event: 'done', language: string, duration: number }

export type SttInput = AsyncIterable<Uint8Array>

export interface Listening {
  /** Models for speech to text, the preferred one first. */
  models (): readonly { card: ModelCard, ready: boolean }[]
  /**
   * Resolves an alias or one of OpenAI's names (`whisper-1`) to the id of a model; other names are returned
   * unchanged. Throws `no_instance` for OpenAI's names if there is no model.
   */
  modelFor (name: string): string
  /**
   * Yields the engine's events as the reader pulls. An input that is a function can be read again if the
   * instance is lost. Throws like `runTask`.
   */
  transcribe (
    request: SttPayload & { model: string }, input: SttInput | (() => SttInput), call: CapabilityCall<unknown>
  ): AsyncIterable<SttEvent>
}
export const ListeningService = defineService<Listening>('capabilities-stt.listening')
