/**
 * Stock Piper (VITS) voices. The graph is cut before its decoder, whose reach is derived from the attributes
 * of its convolutions, and the noise it draws is replaced by a table that follows the request's seed.
 */
import { randomInt } from 'node:crypto'
import { encodeModel, extractModel, indexGraph, type GraphIndex, type OnnxModel } from '../../onnx/engine.js'
import type { SpeechRequest, SpeechUnit } from './family.js'
import type { VitsGraph, VitsTail } from './vits.js'
import { findLocalTail } from './local-tail.js'
import { columns } from './local-decode.js'
import { gaussian, NOISE_INPUT, NOISE_LENGTH, NOISE_START, seedNoise } from './seeded-noise.js'
import { float32, floats, int64, type Feeds, type Sessions } from './sessions.js'
import type { VoiceConfig } from './voice-config.js'

// Distance between the starts of two units in the noise table.
const UNIT_STRIDE = 17_389

/**
 * The noise inputs of a run. A request keeps its table for all its units, which start at different places.
 */
export function tableNoise (): (request: SpeechRequest, unit: SpeechUnit) => Feeds {
  const tables = new WeakMap<SpeechRequest, Float32Array>()
  return (request, unit) => {
    const table = tables.get(request) ?? gaussian(request.seed ?? randomInt(2 ** 32), NOISE_LENGTH)
    tables.set(request, table)
    const start = unit.index * UNIT_STRIDE % NOISE_LENGTH
    return { [NOISE_INPUT]: float32(table, [NOISE_LENGTH]), [NOISE_START]: int64([start], []) }
  }
}

async function openTail (index: GraphIndex, output: string, sessions: Sessions): Promise<
{ tensor: string, tail: VitsTail } | undefined> {
  const found = findLocalTail(index, output, ['sid'])
  if (found === undefined) return undefined
  const { tensor, hop, overlap, extra } = found
  const decoder = await sessions.open(encodeModel(extractModel(index, [tensor], [output])), 'the decoder')
  const run = async (front: Feeds, from: number, to: number, sid: number): Promise<Float32Array> => {
    const channels = front[tensor]?.dims[1] ?? 1
    const z = columns(floats(front[tensor], tensor), channels, from, to)
    const feeds: Feeds = { [tensor]: float32(z, [1, channels, to - from]) }
    for (const name of extra) feeds[name] = int64([sid], [1])
    const spoken = await sessions.run(decoder, feeds, 'frames', to - from)
    return floats(spoken[output], output)
  }
  return { tensor, tail: { hop, overlap, frames: (front) => front[tensor]?.dims[2] ?? 0, run } }
}

/**
 * Opens a voice from its decoded file; `path` is used instead where its weights lie in files beside it.
 * @throws EngineError model_invalid
 */
export async function openPiper (
  file: OnnxModel, path: string, config: VoiceConfig, sessions: Sessions
): Promise<VitsGraph> {
  const original = indexGraph(file)
  const noiseW = (): number => config.noiseW
  if (original.external) {
    return {
      front: await sessions.open(path, 'the voice'), tail: undefined, noise: () => ({}), noiseW, seeded: false
    }
  }
  const { model, seeded, fed } = seedNoise(original)
  const noise = fed ? tableNoise() : (): Feeds => ({})
  const index = indexGraph(model)
  const output = [...index.outputs.keys()][0] ?? 'output'
  const cut = await openTail(index, output, sessions)
  const inputs = [...index.inputs.keys()].filter((name) => !index.initializers.has(name))
  const frontModel = cut === undefined ? model : extractModel(index, inputs, [cut.tensor])
  const front = await sessions.open(encodeModel(frontModel), 'the voice')
  return { front, tail: cut?.tail, noise, noiseW, seeded }
}
