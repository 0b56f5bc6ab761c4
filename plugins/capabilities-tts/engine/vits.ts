/**
 * Voices with Piper's signature: `input`, `input_lengths`, `scales`, `sid` in, samples out. Two families
 * share it: stock Piper (VITS) voices and the embedded one. They differ in where the graph is cut and how a
 * seed reaches the noise; both are data here (`VitsGraph`).
 */
import type { InferenceSession } from 'onnxruntime-node'
import type { CardVoice } from '../../../kernel/api/engine.js'
import type { Family, Limits, SpeechRequest, SpeechUnit } from './family.js'
import { decodeLocal } from './local-decode.js'
import { capSymbols, plainFront, type Front, type UnitSizes } from './phonemes.js'
import { float32, floats, int64, type Feeds, type Sessions } from './sessions.js'
import { languageCode, phonemeIds, type VoiceConfig } from './voice-config.js'

/** The part of a cut graph that runs piece by piece. */
export interface VitsTail {
  hop: number
  overlap: number
  /** Number of frames in the front's outputs. */
  frames: (front: Feeds) => number
  /** Samples of frames [from, to). */
  run: (front: Feeds, from: number, to: number, sid: number) => Promise<Float32Array>
}

/** A voice's graph, whole (`tail` undefined: the front answers samples) or cut. */
export interface VitsGraph {
  front: InferenceSession
  tail: VitsTail | undefined
  /** Inputs that carry the seed beside `scales`. */
  noise: (request: SpeechRequest, unit: SpeechUnit) => Feeds
  /** `scales[2]`: noise of the durations, or the seed where it rides there. */
  noiseW: (request: SpeechRequest) => number
  seeded: boolean
}

/** What a family adds to the graph. */
export interface VitsVoice {
  graph: VitsGraph
  config: VoiceConfig
  front: Front
  warmFront: () => void
  sizes: UnitSizes
  /** Whether pads go between symbols. */
  pads: boolean
  pauseSeconds: number
  voices: CardVoice[]
  defaultVoice: string
}

/**
 * A VITS voice keeps its quality from a quarter to four times its speed; noise beyond twice its level is
 * hiss.
 */
export const VITS_LIMITS: Limits = { speed: { min: 0.25, max: 4 }, temperature: { min: 0, max: 2 } }

/** Puts a loaded voice behind the common interface. */
export function vitsFamily (voice: VitsVoice, sessions: Sessions): Family {
  const { config, graph } = voice
  const codes = [...config.languages, 'ipa']
  return {
    sampleRate: config.sampleRate,
    voices: voice.voices,
    defaultVoice: voice.defaultVoice,
    limits: VITS_LIMITS,
    seeded: graph.seeded,
    pauseSeconds: voice.pauseSeconds,
    streams: graph.tail !== undefined,
    findVoice: (id) => voice.voices.some((v) => v.id === id) ? id : undefined,
    findLanguage: (code) => code === undefined ? codes[0] : codes.find((c) => c === languageCode(code)),
    languages: () => codes,
    prepare: (text, request) => prepare(voice, text, request),
    synth: (unit, request, signal) => synth(voice, sessions, unit, request, signal),
    warmFront: voice.warmFront,
    close: async () => await sessions.close()
  }
}

function * prepare (voice: VitsVoice, text: string, request: SpeechRequest): Generator<SpeechUnit> {
  const front = request.language === 'ipa' ? plainFront : voice.front
  let index = 0
  for (const { phonemes, sentenceEnd } of capSymbols(front(text, voice.sizes), request.maxSymbols)) {
    const ids = phonemeIds(voice.config, phonemes, voice.pads)
    yield { ids, symbols: [...phonemes].length, sentenceEnd, index: index++ }
  }
}

function feedsOf ({ config, graph }: VitsVoice, unit: SpeechUnit, request: SpeechRequest): Feeds {
  const scales = [
    config.noiseScale * request.temperature, config.lengthScale / request.speed, graph.noiseW(request)
  ]
  const all: Feeds = {
    input: int64(unit.ids, [1, unit.ids.length]),
    input_lengths: int64([unit.ids.length], [1]),
    scales: float32(scales, [3]),
    sid: int64([config.speakers.get(request.voice) ?? 0], [1]),
    ...graph.noise(request, unit)
  }
  // `sid` is an input of multi-speaker voices only.
  return Object.fromEntries(Object.entries(all).filter(([name]) => graph.front.inputNames.includes(name)))
}

async function * synth (
  voice: VitsVoice, sessions: Sessions, unit: SpeechUnit, request: SpeechRequest, signal: AbortSignal
): AsyncGenerator<Float32Array> {
  const { config, graph } = voice
  const { front, tail } = graph
  const out = await sessions.run(front, feedsOf(voice, unit, request), 'symbols', unit.ids.length)
  if (signal.aborted) return
  if (tail === undefined) {
    const name = front.outputNames[0] ?? ''
    yield floats(out[name], name)
    return
  }
  const sid = config.speakers.get(request.voice) ?? 0
  yield * decodeLocal({
    ...tail,
    frames: tail.frames(out),
    sampleRate: config.sampleRate,
    run: async (from, to) => await tail.run(out, from, to, sid)
  }, request.pace, signal)
}
