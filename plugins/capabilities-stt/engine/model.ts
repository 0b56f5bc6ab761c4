/** Loads a Whisper export: graphs, cut as in graphs.ts, the spectrogram, the vocabulary, and Silero VAD. */
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Tensor, type InferenceSession } from 'onnxruntime-node'
import { EngineError, type EngineEnv, type ModelSpec } from '../../../kernel/api/engine.js'
import { decodeModel, encodeModel, openSession } from '../../runners/onnx/engine.js'
import { count, fieldsOf, parsed } from '../../runners/language/json.js'
import { crossGraph, shortEncoder, stepGraph } from './graphs.js'
import { HOP, RATE, melGraph, padded } from './mel.js'
import { Vocabulary, WINDOW_SECONDS } from './tokens.js'

export type Feeds = Record<string, Tensor>
export type Whisper = Awaited<ReturnType<typeof loadWhisper>>

/** Samples of one encoder position, and positions of a whole window. */
const POSITION = 2 * HOP
const POSITIONS = WINDOW_SECONDS * RATE / POSITION
/** Fewer positions give worse text, so shorter sounds are followed by silence. Lengths are rounded up. */
const LEAST_POSITIONS = POSITIONS / 6
const POSITIONS_STEP = 50
/** Bytes of cross attention that the rows of one batch may take. */
const BATCH_BYTES = 160 * 2 ** 20
const MOST_ROWS = 8
const VAD = new URL('./vad/silero_vad.onnx', import.meta.url)

export const float32 = (values: Float32Array, dims: number[]): Tensor => new Tensor('float32', values, dims)

/** The values of a float32 output. @throws EngineError model_invalid for another type */
export function floats (tensor: Tensor | undefined, name: string): Float32Array {
  if (tensor?.data instanceof Float32Array) return tensor.data
  throw new EngineError('model_invalid', `output ${name} is ${tensor?.type ?? 'missing'}, not float32`)
}

/** Reads a file of the card and passes it to `use`. @throws EngineError model_incomplete, model_invalid */
async function read<T> ({ card, directory }: ModelSpec, name: RegExp, use: (bytes: Buffer) => T): Promise<T> {
  // Of several variants of a graph, the card gives one the role weights.
  const path = card.files.find(({ path, role }) =>
    name.test(basename(path)) && (role === 'weights' || !path.endsWith('.onnx')))?.path
  if (path === undefined) throw new EngineError('model_incomplete', `${card.modelId} has no ${name.source}`)
  let bytes: Buffer
  try {
    bytes = await readFile(join(directory, path))
  } catch (error) {
    const why = (error as Error).message
    throw new EngineError('model_incomplete', `cannot read ${path}: ${why}. Stage the model again.`)
  }
  try {
    return use(bytes)
  } catch (error) {
    if (error instanceof EngineError) throw error
    throw new EngineError('model_invalid', `${path} is not of a Whisper export: ${(error as Error).message}`)
  }
}

/** Opens all graphs; `layers` are those whose cross attention is needed. */
async function openGraphs (spec: ModelSpec, env: EngineEnv, bands: number, layers: ReadonlySet<number>) {
  const all: InferenceSession[] = []
  const open = async (model: Uint8Array, label: string): Promise<InferenceSession> => {
    const session = await openSession(model, spec, { engine: 'onnx-stt', label })
    env.progress(all.push(session), 5)
    return session
  }
  const mel = await open(melGraph(bands), 'the spectrogram')
  const vad = await open(await readFile(fileURLToPath(VAD)), 'the voice detector')
  const short = await read(spec, /^encoder_model/, (bytes) => shortEncoder(decodeModel(bytes)))
  const encoder = await open(encodeModel(short.model), 'the encoder')
  // The length of a whole window may be fixed elsewhere in the graph too.
  const silence = float32(new Float32Array(bands * 2 * LEAST_POSITIONS), [1, bands, 2 * LEAST_POSITIONS])
  const isShort = short.isCut && await encoder.run({ input_features: silence }).then(() => true, () => false)
  const split = spec.card.files.some(({ path, role }) => /decoder_with_past/.test(path) && role === 'weights')
  const first = await read(spec, /^decoder_model/, (bytes) => crossGraph(decodeModel(bytes)))
  const cross = await open(encodeModel(first.model), 'the cross attention')
  const { model, ...ports } = await read(spec, split ? /^decoder_with_past/ : /^decoder_model/, (bytes) =>
    stepGraph(decodeModel(bytes), layers))
  const step = await open(encodeModel(model), 'the decoder')
  return { all, mel, vad, encoder, isShort, cross, outputs: first.outputs, step, ports }
}

/** @throws EngineError model_invalid, model_incomplete, no_backend */
export async function loadWhisper (spec: ModelSpec, env: EngineEnv) {
  const json = async (name: RegExp) => await read(spec, name, (bytes) => fieldsOf(parsed(bytes.toString())))
  const config = await json(/^config\.json$/)
  const generation = await json(/^generation_config\.json$/)
  const vocabulary = new Vocabulary(await json(/^tokenizer\.json$/), generation)
  const heads = generation['alignment_heads']
  const alignment = (Array.isArray(heads) ? heads : []) as [layer: number, head: number][]
  const graphs = await openGraphs(spec, env, count(config, 'num_mel_bins') ?? 80,
    new Set(alignment.map(([layer]) => layer)))
  const { mel, encoder, ports: step } = graphs
  const width = count(config, 'd_model') ?? 1
  const rowBytes = step.cross.length * POSITIONS * width * 4
  return {
    vocabulary, step, width, alignment,
    heads: count(config, 'decoder_attention_heads') ?? 1,
    /** Tokens that the decoder can hold. */
    context: count(config, 'max_target_positions') ?? 448,
    /** Windows that are decoded together. */
    rows: Math.max(1, Math.min(MOST_ROWS, Math.floor(BATCH_BYTES / rowBytes))),

    /** The encoder's output [positions, width] for each of several sounds of at most 30 s at 16 kHz. */
    async encode (sounds: readonly Float32Array[], signal: AbortSignal): Promise<Float32Array[]> {
      const longest = Math.max(...sounds.map(({ length }) => length)) / POSITION
      const rounded = Math.ceil(longest / POSITIONS_STEP) * POSITIONS_STEP
      const positions = graphs.isShort ? Math.min(POSITIONS, Math.max(LEAST_POSITIONS, rounded)) : POSITIONS
      const encoded: Float32Array[] = []
      for (const sound of sounds) {
        if (signal.aborted) break
        const samples = padded(sound, 2 * positions)
        const out = await env.work('encode', positions, async () => {
          const features = await mel.run({ samples: float32(samples, [1, 1, samples.length]) })
          return await encoder.run({ input_features: features['mel']! })
        })
        encoded.push(floats(out['last_hidden_state'], 'last_hidden_state'))
      }
      return encoded
    },

    /** Keys and values [heads, positions, size] of each layer for the cross attention to one sound. */
    async cross (encoded: Float32Array): Promise<Float32Array[]> {
      const positions = encoded.length / width
      const feeds = { encoder_hidden_states: float32(encoded, [1, positions, width]) }
      const out = await env.work('cross', positions, async () => await graphs.cross.run(feeds))
      return graphs.outputs.map((name) => floats(out[name], name))
    },

    async next (feeds: Feeds, outputs: string[], rows: number): Promise<Feeds> {
      const used = Object.fromEntries(graphs.step.inputNames.map((name) => [name, feeds[name]!]))
      return await env.work('step', rows, async () => await graphs.step.run(used, outputs))
    },

    vad: async (feeds: Feeds, frames: number): Promise<Feeds> =>
      await env.work('vad', frames, async () => await graphs.vad.run(feeds)),

    async close (): Promise<void> { for (const session of graphs.all.splice(0)) await session.release() }
  }
}
