/**
 * Voices with Piper's signature: inputs `input`, `input_lengths`, `scales` and `sid`, output samples. Two
 * families: stock Piper (VITS) voices, and the bundled voice, which predicts vocoder parameters and contains
 * the vocoder. They differ in where the graph is cut and in how noise is seeded (`VitsGraph`).
 */
import type { InferenceSession } from 'onnxruntime-node'
import type { CardVoice } from '../../../kernel/api/engine.js'
import {
  encodeModel, extractModel, indexGraph, type GraphIndex, type OnnxModel
} from '../../runners/onnx/engine.js'
import type { Family, SpeechRequest, SpeechUnit } from './family.js'
import { decodeLocal, findLocalTail } from './local-tail.js'
import type { UnitSizes } from '../text/front-end.js'
import { capSymbols, pauseAfter, plainFront, type UnitSource } from './phonemes.js'
import { seedNoise, createNoiseInputs } from './seeded-noise.js'
import { languageCode } from '../languages.js'
import { columns, float32, floats, int64, type Feeds, type Sessions } from './sessions.js'
import { phonemeIds, type VoiceConfig } from './voice-config.js'

interface VitsTail {
  hop: number
  /** How many frames on each side the samples of one frame depend on. */
  overlap: number
  frames: (front: Feeds) => number
  /** Computes the samples of frames [from, to). */
  run: (front: Feeds, from: number, to: number, sid: number) => Promise<Float32Array>
}

/** A voice's graph; if it cannot be cut, `tail` is undefined and `front` computes the samples. */
export interface VitsGraph {
  front: InferenceSession
  tail: VitsTail | undefined
  /** Values for the graph's noise inputs, which depend on the seed. */
  noise: (request: SpeechRequest, unit: SpeechUnit) => Feeds
  /** The value of `scales[2]`: the noise level of durations in Piper, the seed in the bundled voice. */
  noiseW: (request: SpeechRequest) => number
  seeded: boolean
}

export interface VitsVoice {
  graph: VitsGraph, config: VoiceConfig, front: UnitSource
  warmFront: () => void
  sizes: UnitSizes, pads: boolean, voices: CardVoice[], defaultVoice: string
}

const VOICE = 'the voice'

/** Opens both parts of a graph that is cut at `tensors`; `decode` runs the tail on `frames` frames. */
async function openCut (
  index: GraphIndex, tensors: string[], label: string, sessions: Sessions
): Promise<{ front: InferenceSession, decode: (feeds: Feeds, frames: number) => Promise<Float32Array> }> {
  const output = outputOf(index)
  const front = await sessions.open(encodeModel(extractModel(index, inputsOf(index), tensors)), VOICE)
  const decoder = await sessions.open(encodeModel(extractModel(index, tensors, [output])), label)
  return {
    front,
    decode: async (feeds, frames) =>
      floats((await sessions.run(decoder, feeds, 'frames', frames))[output], output)
  }
}

const outputOf = (index: GraphIndex): string => [...index.outputs.keys()][0] ?? 'output'

/**
 * Defined outside `openCut`, whose `decode` closure would otherwise keep the graph and its file in memory.
 */
const inputsOf = ({ inputs, initializers }: GraphIndex): string[] =>
  [...inputs.keys()].filter((name) => !initializers.has(name))

/**
 * Opens a stock Piper voice, cut before a local decoder. `path` replaces `file` if weights are in other
 * files. Noise comes from a table. @throws EngineError model_invalid
 */
export async function openPiper (
  file: OnnxModel, path: string, config: VoiceConfig, sessions: Sessions
): Promise<VitsGraph> {
  const original = indexGraph(file)
  const noiseW = (): number => config.noiseW
  if (original.external) {
    const front = await sessions.open(path, VOICE)
    return { front, tail: undefined, noise: () => ({}), noiseW, seeded: false }
  }
  const { model, seeded, fed } = seedNoise(original)
  const seeding = { noise: fed ? createNoiseInputs() : (): Feeds => ({}), noiseW, seeded }
  const index = indexGraph(model)
  const local = findLocalTail(index, outputOf(index), ['sid'])
  if (local === undefined) {
    return { front: await sessions.open(encodeModel(model), VOICE), tail: undefined, ...seeding }
  }
  const { tensor, hop, overlap, extra } = local
  const { front, decode } = await openCut(index, [tensor], 'the decoder', sessions)
  const run: VitsTail['run'] = async (out, from, to, sid) => {
    const channels = out[tensor]?.dims[1] ?? 1
    const z = columns(floats(out[tensor], tensor), channels, from, to)
    const speaker = Object.fromEntries(extra.map((name) => [name, int64([sid], [1])]))
    return await decode({ [tensor]: float32(z, [1, channels, to - from]), ...speaker }, to - from)
  }
  return { front, ...seeding, tail: { hop, overlap, frames: (out) => out[tensor]?.dims[2] ?? 0, run } }
}

/** Samples per frame in the bundled voice, and frames that its vocoder's filter spans. */
const HOP = 80
const OVERLAP = 7
/** Seeds below 2^22 are exact in a float32 `scales[2]`. */
const SEED_BITS = 22

/**
 * `scales[2]` for a 32-bit seed: the graph uses round(1000 * value). Hashes seeds from 2^22 on to fewer bits.
 */
export function seedScale (seed: number): number {
  if (seed < 2 ** SEED_BITS) return seed / 1000
  return (Math.imul(seed ^ (seed >>> 15), 0x2c1b3c6d) >>> (32 - SEED_BITS)) / 1000
}

/**
 * Opens the bundled voice, cut at the tensors `excitation` and `frames` if they exist; see "Streaming" in
 * docs/recipes/voice-en/README.md.
 */
export async function openFlite (
  model: OnnxModel, config: VoiceConfig, sessions: Sessions
): Promise<VitsGraph> {
  const index = indexGraph(model)
  const seeding = {
    noise: (): Feeds => ({}),
    noiseW: ({ seed }: SpeechRequest) => seed === undefined ? config.noiseW : seedScale(seed),
    seeded: true
  }
  if (!index.producer.has('excitation') || !index.producer.has('frames')) {
    return { front: await sessions.open(encodeModel(model), VOICE), tail: undefined, ...seeding }
  }
  const { front, decode } = await openCut(index, ['excitation', 'frames'], 'its vocoder', sessions)
  const run: VitsTail['run'] = async (out, from, to) => {
    const width = out['frames']?.dims[2] ?? 1
    const frames = floats(out['frames'], 'frames').slice(from * width, to * width)
    const excitation = columns(floats(out['excitation'], 'excitation'), 2, from * HOP, to * HOP)
    return await decode({
      excitation: float32(excitation, [1, 2, (to - from) * HOP]),
      frames: float32(frames, [1, to - from, width])
    }, to - from)
  }
  const framesOf = (out: Feeds): number => out['frames']?.dims[1] ?? 0
  return { front, ...seeding, tail: { hop: HOP, overlap: OVERLAP, frames: framesOf, run } }
}

export function vitsFamily (voice: VitsVoice, sessions: Sessions): Family {
  const { config, graph, voices, defaultVoice, warmFront } = voice
  const codes = [...config.languages, 'ipa']
  return {
    voices, defaultVoice, warmFront,
    sampleRate: config.sampleRate,
    // Quality suffers outside these speeds; more than twice the voice's noise level is audible as hiss.
    limits: { speed: { min: 0.25, max: 4 }, temperature: { min: 0, max: 2 } },
    seeded: graph.seeded,
    streams: graph.tail !== undefined,
    findVoice: (id) => voices.some((v) => v.id === id) ? id : undefined,
    findLanguage: (code) => code === undefined ? codes[0] : codes.find((c) => c === languageCode(code)),
    languages: () => codes,
    prepare: (text, request) => prepare(voice, text, request),
    synth: (unit, request, signal) => synth(voice, sessions, unit, request, signal),
    close: async () => await sessions.close()
  }
}

function * prepare (voice: VitsVoice, text: string, request: SpeechRequest): Generator<SpeechUnit> {
  const front = request.language === 'ipa' ? plainFront : voice.front
  let index = 0
  for (const unit of capSymbols(front(text, voice.sizes), request.maxSymbols)) {
    const ids = phonemeIds(voice.config, unit.phonemes, voice.pads)
    yield { ids, symbols: [...unit.phonemes].length, pauseSeconds: pauseAfter(unit), index: index++ }
  }
}

function feedsOf ({ config, graph }: VitsVoice, unit: SpeechUnit, request: SpeechRequest): Feeds {
  const scales = [
    config.noiseScale * request.temperature, config.lengthScale / request.speed, graph.noiseW(request)
  ]
  const all: Feeds = {
    input: int64(unit.ids, [1, unit.ids.length]), input_lengths: int64([unit.ids.length], [1]),
    scales: float32(scales, [3]), sid: int64([config.speakers.get(request.voice) ?? 0], [1]),
    ...graph.noise(request, unit)
  }
  // Only multi-speaker voices have the input `sid`.
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
    ...tail, frames: tail.frames(out), sampleRate: config.sampleRate,
    run: async (from, to) => await tail.run(out, from, to, sid)
  }, request.pace, signal)
}
