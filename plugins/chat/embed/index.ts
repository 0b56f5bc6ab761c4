/**
 * Engine `onnx-lm`: models that make vectors of texts, in the public ONNX layouts, on onnxruntime. Runs in a
 * runner process.
 */
import { readFile, stat } from 'node:fs/promises'
import type { InferenceSession } from 'onnxruntime-node'
import { EngineError, type EngineModule, type ModelCard, type ModelSpec } from '../../../kernel/api/engine.js'
import { contextOf as cappedContext } from '../../runners/cards/memory-forecast.js'
import { decodeModel, openSession } from '../../runners/onnx/engine.js'
import { fieldsOf } from '../../runners/language/json.js'
import { refusesCard } from '../refusals.js'
import { bindEncoder, type Port } from './bind.js'
import { findFiles, type ModelFiles } from './files.js'
import { TextReader } from './reader.js'
import { EncoderSession } from './session.js'
import { readTokenizer } from './tokenizer.js'
import { pooledByName, poolingOf } from './vectors.js'

/** A graph above this is not read into memory. */
const MAX_READ_BYTES = 1.5 * 2 ** 30
/** Quantisations, by the card, that imply one scale: for graphs that are not read. */
const ONE_SCALE = new Set(['q8', 'int8', 'uint8'])
/** Operators that quantise all of a call by one scale. */
const SCALING = new Set(
  ['DynamicQuantizeLinear', 'DynamicQuantizeMatMul', 'DynamicQuantizeLSTM', 'QAttention'])

/** The engine. `load` reads the files that the card lists below `spec.directory`. */
const engine: EngineModule = {
  async load (spec, env): Promise<EncoderSession> {
    const { card } = spec
    const why = refusesCard(card)
    if (why !== null) throw new EngineError('model_invalid', why)
    const files = await findFiles(spec)
    env.progress(1, 3)
    const shared = await sharesScale(files, card)
    const session = await openSession(files.graph, spec, { engine: 'onnx-lm', label: 'the model' })
    env.progress(2, 3)
    try {
      const [inputs, outputs] = [session.inputMetadata, session.outputMetadata].map(portsOf)
      const binding = bindEncoder(inputs!, outputs!, card)
      // Only the last token of a decoder has seen the whole text.
      const usual = binding.pasts.length > 0 ? 'last' : pooledByName(card.modelId)
      const pooling = poolingOf(files.pooling, usual)
      const reader = new TextReader(await readTokenizer(files.tokenizer), files.tokenizer)
      env.progress(3, 3)
      const contextLength = contextOf(spec, files)
      return new EncoderSession({ session, binding, pooling, env, shared, reader, contextLength, card })
    } catch (error) {
      await session.release()
      throw error
    }
  }
}

const portsOf = (list: readonly InferenceSession.ValueMetadata[]): Port[] => list.map((value) =>
  value.isTensor
    ? { name: value.name, type: value.type, shape: value.shape }
    : { name: value.name, type: 'no tensor', shape: [] })

/** Whether all texts of a call are quantised by one scale. */
async function sharesScale ({ graph }: ModelFiles, { quantization }: ModelCard): Promise<boolean> {
  if ((await stat(graph)).size <= MAX_READ_BYTES) {
    try {
      return decodeModel(await readFile(graph)).graph.node.some(({ opType }) => SCALING.has(opType))
    } catch {
      // onnxruntime says why.
    }
  }
  return ONE_SCALE.has(quantization ?? '')
}

/**
 * The context of the instance. The model's is by the card, else by config.json.
 * @throws EngineError model_invalid for none
 */
function contextOf ({ card, contextLength }: ModelSpec, { config }: ModelFiles): number {
  const length = card.contextLength > 0
    ? card.contextLength
    : fieldsOf(config)['max_position_embeddings']
  if (typeof length === 'number' && length > 1) return cappedContext({ contextLength: length }, contextLength)
  throw new EngineError('model_invalid', `nothing says how long the context of ${card.modelId} is: ` +
    'looked for contextLength in the card and max_position_embeddings in config.json')
}

export default engine
