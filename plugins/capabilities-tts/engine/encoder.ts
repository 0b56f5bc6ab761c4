/** Choosing the encoder of an answer. */
import { EngineError } from '../../../kernel/api/engine.js'
import type { AudioEncoder } from './audio.js'
import { Mp3Stream, MP3_RATES } from './mp3.js'
import { PcmStream, wavHeader } from './pcm.js'

/** Encodings this engine writes: MP3 frames, or 16-bit samples with and without a WAV header. */
export const ENCODINGS = ['mp3', 'wav', 'pcm'] as const
export type Encoding = typeof ENCODINGS[number]

/**
 * The encoder for one answer.
 * @throws EngineError invalid_payload for an MP3 at a rate that MP3 does not have.
 */
export function createEncoder (encoding: Encoding, sampleRate: number): AudioEncoder {
  if (encoding === 'wav') return new PcmStream(sampleRate, wavHeader(sampleRate))
  if (encoding === 'pcm') return new PcmStream(sampleRate, new Uint8Array())
  if (MP3_RATES.includes(sampleRate)) return new Mp3Stream(sampleRate)
  const rates = MP3_RATES.join(', ')
  const message = `this voice speaks at ${sampleRate} Hz, MP3 at ${rates} Hz only: ask for wav or pcm`
  throw new EngineError('invalid_payload', message, { issues: [{ path: 'response_format', message }] })
}
