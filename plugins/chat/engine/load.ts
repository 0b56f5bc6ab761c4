/** From a model's files to a loaded model with its text side. */
import { readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { InferenceSession } from 'onnxruntime-node'
import {
  contextOf as cappedContext, EngineError, type EngineEnv, type ModelSpec
} from '../../../kernel/api/engine.js'
import { decodeModel, openSession, valueName, type OnnxModel } from '../../onnx/engine.js'
import { fieldsOf } from '../json.js'
import { parametersOf } from '../sampling.js'
import { loadText } from '../text/index.js'
import type { LoadedText } from '../text/types.js'
import { bind, firstPositionOf, namesOf, type Port } from './bind.js'
import { bindEncoder, isEncoder } from './bind-encoder.js'
import type { LoadedEncoder } from './encoder.js'
import { findFiles, type ModelFiles } from './files.js'
import { changedGraph, sharesScale } from './graph-changes.js'
import { flag } from './limits.js'
import { OnnxDecoder } from './model.js'
import { pooledByName, poolingOf } from './vectors.js'
import { Prompts } from './prompts.js'
import { probe, type Probed } from './probe.js'

/** What a loaded model has beside its graph. */
export interface TextSide {
  text: LoadedText
  prompts: Prompts
  /** Tokens a sequence may have, by the card or the configuration. */
  contextLength: number
}

/** A model that writes. */
export interface Loaded extends TextSide {
  decoder: OnnxDecoder
  probed: Probed
  /** Parameters the model's makers recommend, by OpenAI's names. */
  defaults: Record<string, unknown>
  /** The graph was changed to compute logits of the last token only. */
  sliced: boolean
  files: ModelFiles
}

/** A graph above this is not read into memory. */
const MAX_READ_BYTES = 1.5 * 2 ** 30
/** Of a graph that is not read, the card says how its weights are kept. */
const ONE_SCALE = new Set(['q8', 'int8', 'uint8'])

/** Inputs and outputs of a session. */
export function portsOf (session: InferenceSession): { inputs: Port[], outputs: Port[] } {
  const ports = (list: readonly InferenceSession.ValueMetadata[]): Port[] => list.map((value) =>
    value.isTensor
      ? { name: value.name, type: value.type, shape: value.shape }
      : { name: value.name, type: 'no tensor', shape: [] })
  return { inputs: ports(session.inputMetadata), outputs: ports(session.outputMetadata) }
}

interface Opened { session: InferenceSession, inputs: Port[], outputs: Port[] }

async function open (model: string | Uint8Array, spec: ModelSpec, weightsIn?: string): Promise<Opened> {
  const session = await openSession(model, spec, { engine: 'onnx-lm', label: 'the model', weightsIn })
  return { session, ...portsOf(session) }
}

type Probing = Pick<Loaded, 'decoder' | 'probed'>

/** Where a model comes from; `shared`: whether it quantises all of a call by one scale. */
interface Source { files: ModelFiles, spec: ModelSpec, env: EngineEnv, shared: boolean }

/** A bound and probed decoder; the session is released where the graph does not fit. */
async function decoderOf (
  { session, inputs, outputs }: Opened, { files, spec: { card }, env, shared }: Source
): Promise<Probing> {
  try {
    const bound = bind(inputs, outputs, card, namesOf(files.genai))
    const binding = { ...bound, firstPosition: firstPositionOf(files.config) }
    const decoder = new OnnxDecoder(session, binding, files.bytes, env)
    return { decoder, probed: await probe(decoder, shared) }
  } catch (error) {
    await session.release()
    throw error
  }
}

type Changed = Probing & { sliced: boolean }

/** The model's graph; undefined where it is large, or cannot be read: onnxruntime then says why. */
async function readGraph ({ graph }: ModelFiles): Promise<OnnxModel | undefined> {
  if ((await stat(graph)).size > MAX_READ_BYTES) return undefined
  try {
    return decodeModel(await readFile(graph))
  } catch {
    return undefined
  }
}

/** The model with its graph changed for speed; undefined where that cannot be. */
async function openChanged (model: OnnxModel, source: Source): Promise<Changed | undefined> {
  const { files, spec, env } = source
  const in8Bits = !flag(spec.options, 'exact_products')
  try {
    const made = changedGraph(model, in8Bits, spec.card, namesOf(files.genai))
    if (made === undefined) return undefined
    const opened = await open(made.bytes, spec, dirname(files.graph))
    const outputs = made.outputs ?? opened.outputs
    return { ...await decoderOf({ ...opened, outputs }, source), sliced: made.sliced }
  } catch (error) {
    env.log('info', 'the graph is used as it is', { error: (error as Error).message })
    return undefined
  }
}

/**
 * The context of the instance. The model's is by the card, else by the configurations.
 * @throws EngineError model_invalid for none
 */
function contextOf (spec: ModelSpec, files: ModelFiles): number {
  const genai = fieldsOf(fieldsOf(files.genai)['model'])['context_length']
  const own = spec.card.contextLength > 0 ? spec.card.contextLength : undefined
  const length = own ?? fieldsOf(files.config)['max_position_embeddings'] ?? genai
  if (typeof length === 'number' && length > 1) {
    return cappedContext({ contextLength: length }, spec.contextLength)
  }
  throw new EngineError('model_invalid', `nothing says how long the context of ${spec.card.modelId} is: ` +
    'looked for contextLength in the card and max_position_embeddings in config.json')
}

/** Parameters of the card win over generation_config.json, where `do_sample: false` is temperature 0. */
function defaultsOf (spec: ModelSpec, files: ModelFiles): Record<string, unknown> {
  const generation = fieldsOf(files.generation)
  const own = parametersOf('model').filter(({ name }) => typeof generation[name] === 'number')
    .map(({ parameter, name }): [string, unknown] => [parameter, generation[name]])
  const greedy = generation['do_sample'] === false ? { temperature: 0 } : {}
  return { ...Object.fromEntries(own), ...greedy, ...spec.card.defaults }
}

async function loadTextSide (
  spec: ModelSpec, files: ModelFiles, env: EngineEnv, options: { vocabularySize?: number } = {}
): Promise<TextSide> {
  env.progress(3, 4)
  const folder = files.textFolder
  const text = await loadText(folder, options)
  env.progress(4, 4)
  return { text, prompts: new Prompts(text, { folder, ...options }), contextLength: contextOf(spec, files) }
}

async function finishDecoder (
  made: Changed, files: ModelFiles, spec: ModelSpec, env: EngineEnv
): Promise<Loaded> {
  const { vocabularySize } = made.probed
  const textSide = await loadTextSide(spec, files, env, { vocabularySize })
  return { ...made, ...textSide, files, defaults: defaultsOf(spec, files) }
}

async function finishEncoder (
  { session, inputs, outputs }: Opened, { files, spec, env, shared }: Source
): Promise<LoadedEncoder> {
  const binding = bindEncoder(inputs, outputs, spec.card)
  // Only the last token of a decoder has seen the whole text.
  const usual = binding.pasts.length > 0 ? 'last' : pooledByName(spec.card.modelId)
  const pooling = poolingOf(files.pooling, usual)
  return { session, binding, pooling, env, shared, ...await loadTextSide(spec, files, env) }
}

/**
 * Loads a model: a decoder, or an encoder where the graph makes vectors and no logits.
 * @throws EngineError model_invalid, model_incomplete, no_backend
 */
export async function loadModel (spec: ModelSpec, env: EngineEnv): Promise<Loaded | LoadedEncoder> {
  const files = await findFiles(spec)
  env.progress(1, 4)
  const model = await readGraph(files)
  const shared = model === undefined ? ONE_SCALE.has(spec.card.quantization ?? '') : sharesScale(model)
  const source = { files, spec, env, shared }
  const { logits } = namesOf(files.genai)
  const isDecoder = model === undefined || model.graph.output.some((bytes) => valueName(bytes) === logits)
  const changed = model !== undefined && isDecoder ? await openChanged(model, source) : undefined
  if (changed !== undefined) return await finishDecoder(changed, files, spec, env)
  const opened = await open(files.graph, spec)
  if (isEncoder(opened.outputs, logits)) return await finishEncoder(opened, source)
  return await finishDecoder({ ...await decoderOf(opened, source), sliced: false }, files, spec, env)
}
