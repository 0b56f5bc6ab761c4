/**
 * Engine `onnx-lm`: embedding models in the public ONNX layouts, on onnxruntime. Runs in a runner process.
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

/** Larger graphs are not read to find out whether a batch shares one quantization scale. */
const MAX_READ_BYTES = 1.5 * 2 ** 30
/** Quantizations that are assumed to share one scale per batch if the graph is too large to read. */
const ONE_SCALE = new Set(['q8', 'int8', 'uint8'])
/** Operators that quantize a whole batch with one scale. */
const SCALING = new Set(
  ['DynamicQuantizeLinear', 'DynamicQuantizeMatMul', 'DynamicQuantizeLSTM', 'QAttention'])

/** Loads the files that the model card lists, from `spec.directory`. */
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
      // In a decoder, only the last token attends to the whole text.
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

/** Whether a batch is quantized with one scale, so that its texts affect each other. */
async function sharesScale ({ graph }: ModelFiles, { quantization }: ModelCard): Promise<boolean> {
  if ((await stat(graph)).size <= MAX_READ_BYTES) {
    try {
      return decodeModel(await readFile(graph)).graph.node.some(({ opType }) => SCALING.has(opType))
    } catch {
      // Ignore the error: onnxruntime reports it when it opens the file.
    }
  }
  return ONE_SCALE.has(quantization ?? '')
}

/**
 * The instance's context length. The card takes precedence over config.json. @throws EngineError
 * model_invalid if neither has one
 */
function contextOf ({ card, contextLength }: ModelSpec, { config }: ModelFiles): number {
  const length = card.contextLength > 0 ? card.contextLength : fieldsOf(config)['max_position_embeddings']
  if (typeof length === 'number' && length > 1) return cappedContext({ contextLength: length }, contextLength)
  throw new EngineError('model_invalid', `the context length of ${card.modelId} is unknown: ` +
    'looked for contextLength in the card and max_position_embeddings in config.json')
}

export default engine
