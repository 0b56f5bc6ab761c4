/**
 * The embedded voice: a predictor of vocoder parameters followed by a vocoder, in one graph with Piper's
 * inputs. It is cut at the named tensors `excitation` and `frames`; see "Streaming" in
 * docs/recipes/voice-en/README.md.
 */
import { encodeModel, extractModel, indexGraph, type OnnxModel } from '../../onnx/engine.js'
import type { VitsGraph } from './vits.js'
import { columns } from './local-decode.js'
import { float32, floats, type Sessions } from './sessions.js'
import type { VoiceConfig } from './voice-config.js'

/** Samples per frame, and frames to each side that the vocoder's filter looks. */
const HOP = 80
const OVERLAP = 7
/** Seeds up to here survive the way through a float32 `scales[2]` unchanged. */
const SEED_BITS = 22

/**
 * The value of `scales[2]` for a 32-bit seed: the graph uses round(1000 * value). Seeds below 2^22 map to
 * themselves, larger ones are folded into that range.
 */
export function seedScale (seed: number): number {
  if (seed < 2 ** SEED_BITS) return seed / 1000
  return (Math.imul(seed ^ (seed >>> 15), 0x2c1b3c6d) >>> (32 - SEED_BITS)) / 1000
}

/** Opens the voice, cut where its graph has the two tensors and whole otherwise. */
export async function openFlite (
  model: OnnxModel, config: VoiceConfig, sessions: Sessions
): Promise<VitsGraph> {
  const index = indexGraph(model)
  const noise = {
    noise: () => ({}),
    noiseW: (request: { seed: number | undefined }) =>
      request.seed === undefined ? config.noiseW : seedScale(request.seed),
    seeded: true
  }
  if (!index.producer.has('excitation') || !index.producer.has('frames')) {
    return { front: await sessions.open(encodeModel(model), 'the voice'), tail: undefined, ...noise }
  }
  const output = [...index.outputs.keys()].slice(0, 1)
  const cut = ['excitation', 'frames']
  const inputs = [...index.inputs.keys()]
  const front = await sessions.open(encodeModel(extractModel(index, inputs, cut)), 'the voice')
  const vocoder = await sessions.open(encodeModel(extractModel(index, cut, output)), 'its vocoder')
  return {
    front,
    ...noise,
    tail: {
      hop: HOP,
      overlap: OVERLAP,
      frames: (out) => out['frames']?.dims[1] ?? 0,
      run: async (out, from, to) => {
        const frames = floats(out['frames'], 'frames')
        const width = out['frames']?.dims[2] ?? 1
        const excitation = columns(floats(out['excitation'], 'excitation'), 2, from * HOP, to * HOP)
        const spoken = await sessions.run(vocoder, {
          excitation: float32(excitation, [1, 2, (to - from) * HOP]),
          frames: float32(frames.slice(from * width, to * width), [1, to - from, width])
        }, 'frames', to - from)
        return floats(spoken[output[0] ?? ''], 'output')
      }
    }
  }
}
