/**
 * What the head of an ONNX file says about a model of this engine before it is loaded: whether its inputs and
 * outputs can be served, and what a sequence takes. The same reading as when it is loaded.
 */
import type { OnnxHeader } from '../../onnx/service.js'
import { bindEncoder, isEncoder } from './bind-encoder.js'
import { bind, namesOf, type Port, type Sizes } from './bind.js'
import { stateBytes, tokenBytes } from './cache.js'

/** Bytes per token of a sequence, and besides; an encoder keeps nothing. */
export interface Layout { kind: 'decoder' | 'encoder', tokenBytes: number, stateBytes: number }

/** Names of element types, by the numbers of TensorProto. */
const TYPES: Readonly<Record<number, string>> = { 1: 'float32', 6: 'int32', 7: 'int64', 10: 'float16' }

const portOf = ({ name, elemType, dims }: OnnxHeader['inputs'][number]): Port =>
  ({ name, type: TYPES[elemType] ?? `number ${elemType}`, shape: dims.map((dim) => dim ?? '') })

/**
 * Reads the inputs and outputs of a graph. `genai` is genai_config.json, if there is one.
 * @throws EngineError model_invalid for a graph that this engine could not feed
 */
export function layoutOf (
  { inputs, outputs }: Pick<OnnxHeader, 'inputs' | 'outputs'>, sizes: Sizes, genai: unknown
): Layout {
  const names = namesOf(genai)
  const [given, made] = [inputs.map(portOf), outputs.map(portOf)]
  if (isEncoder(made, names.logits)) {
    bindEncoder(given, made, sizes)
    return { kind: 'encoder', tokenBytes: 0, stateBytes: 0 }
  }
  const { tensors } = bind(given, made, sizes, names)
  return { kind: 'decoder', tokenBytes: tokenBytes(tensors), stateBytes: stateBytes(tensors) }
}
