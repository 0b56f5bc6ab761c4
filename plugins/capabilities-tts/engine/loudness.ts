/** Brings voices to one loudness by a constant gain, measured once per voice. */
import {
  DECODE_SECONDS, FIRST_PIECE_SECONDS, PieceLengths, type Family, type SpeechRequest
} from './family.js'
import type { AudioEncoder } from './samples.js'

/** RMS in dBFS: that of piper-tts, and the accepted range. */
export const LOUDNESS = -20
export const LOUDNESS_RANGE = { min: -40, max: -10 } as const

/** IPA of "Glue the sheet to the dark blue background": within 1 dB of longer texts by the same voice. */
const PHRASE = 'ɡlˈuː ðə ʃˈiːt tə ðə dˈɑːɹk blˈuː bˈækɡɹaʊnd.'
/** A quieter phrase is no speech: the voice lacks the symbols. */
const SILENCE_RMS = 0.005
const MOST_GAIN = 4
/** Amplitude above which samples are compressed, so that none exceeds 1. */
const KNEE = 0.8
const NEVER = new AbortController().signal

const measured = new WeakMap<Family, Map<string, Promise<number>>>()

/** Amplifies the voice of `request` to a loudness in dBFS before it is encoded; null leaves it as it is. */
export const levelled = (
  encoder: AudioEncoder, dbfs: number | null, family: Family, request: SpeechRequest
): AudioEncoder => dbfs === null ? encoder : {
  encode: async (samples) =>
    await encoder.encode(amplified(samples, gainOf(dbfs, await levelOf(family, request)))),
  finish: () => encoder.finish(),
  close: async () => { await encoder.close?.() }
}

/** The gain from a measured RMS to a loudness; 1 if the voice could not be measured. */
const gainOf = (dbfs: number, level: number): number =>
  level < SILENCE_RMS ? 1 : Math.min(MOST_GAIN, 10 ** (dbfs / 20) / level)

/** The RMS of the voice of `request`, measured before its first answer. */
async function levelOf (family: Family, request: SpeechRequest): Promise<number> {
  const levels = measured.get(family) ?? new Map<string, Promise<number>>()
  measured.set(family, levels)
  // A mix of voices has the level of its first, so that clients cannot fill the memory. Where a phrase takes
  // seconds, all voices have the level of the default, which was measured when the model started.
  const voice = family.streams ? request.voice.split(',')[0]! : family.defaultVoice
  const level = levels.get(voice) ?? rms(family, { ...request, voice })
  levels.set(voice, level)
  try {
    return await level
  } catch (error) {
    levels.delete(voice)
    throw error
  }
}

/** The RMS of the phrase, with the same noise in each process if the voice can be seeded. */
async function rms (family: Family, request: SpeechRequest): Promise<number> {
  const same = {
    ...request, text: PHRASE, language: 'ipa', speed: 1, temperature: 1, maxSymbols: Infinity,
    seed: family.seeded ? 0 : undefined, pace: new PieceLengths(FIRST_PIECE_SECONDS, DECODE_SECONDS)
  }
  let squares = 0
  let count = 0
  for (const unit of family.prepare(PHRASE, same)) {
    if (unit.ids.length < unit.symbols) return 0
    for await (const samples of family.synth(unit, same, NEVER)) {
      for (const v of samples) squares += v * v
      count += samples.length
    }
  }
  return count > 0 && Number.isFinite(squares) ? Math.sqrt(squares / count) : 0
}

/** Multiplies samples, and compresses what would clip. */
export const amplified = (samples: Float32Array, gain: number): Float32Array =>
  gain === 1 ? samples : samples.map((v) => limited(v * gain))

function limited (v: number): number {
  const over = Math.abs(v) - KNEE
  return over <= 0 ? v : Math.sign(v) * (KNEE + (1 - KNEE) * Math.tanh(over / (1 - KNEE)))
}
