/**
 * What is changed in the graph of a decoder before it is opened. Its head works on the last token only, so
 * that a prompt does not pay for the logits of all its tokens. It gives back the new entries of keys and
 * values only: onnxruntime-node copies every output into fresh memory, and the whole KV cache is most of what
 * a decoder gives back. And products with weights of 4 or 8 bits are computed in 8 bits where the file leaves
 * that open.
 */
import {
  ATTRIBUTE, ELEMENT, attributesOf, encodeMessage, encodeModel, indexGraph, int64Tensor, nodeOf,
  opsetOf, portOf, tensorInfo, tensorName, valueName, type GraphIndex, type OnnxModel, type OnnxNode
} from '../../onnx/engine.js'
import { PLACES, bind, newEntriesOf, type CacheTensor, type Names, type Port, type Sizes } from './bind.js'

/** Since then the bounds of a Slice are inputs. */
const SLICE_OPSET = 10
/** Nodes between the head and the logits that work on each number by itself. */
const AFTER_HEAD = new Set(['Cast', 'Mul', 'Div', 'Add', 'Tanh', 'Identity'])
const HEADS = new Set(['MatMul', 'MatMulNBits', 'MatMulInteger'])
/** The longest way from the logits to the head, softcaps and scales included. */
const MAX_STEPS = 12

const SLICE = 'svc_last_token'
const BOUNDS: ReadonlyArray<[name: string, value: number]> =
  [[`${SLICE}_start`, -1], [`${SLICE}_end`, 2 ** 62], [`${SLICE}_axis`, 1]]

/** The node that makes a tensor; undefined for inputs and weights. */
function producerOf ({ model, producer, initializers }: GraphIndex, tensor = ''): OnnxNode | undefined {
  const at = producer.get(tensor)
  return at === undefined || initializers.has(tensor) ? undefined : model.graph.node[at]
}

/**
 * The node whose first input is the hidden state of all tokens. Of a MatMulInteger that is already quantised,
 * by one scale for all tokens: slicing after that leaves the logits as they are.
 */
function findHead (index: GraphIndex, logits: string): OnnxNode | undefined {
  let node = producerOf(index, logits)
  for (let steps = 0; node !== undefined && !HEADS.has(node.opType) && steps < MAX_STEPS; steps++) {
    if (!AFTER_HEAD.has(node.opType)) return undefined
    // The other inputs are constants: scales, and limits of a softcap.
    node = producerOf(index, node.input.find((name) => producerOf(index, name) !== undefined))
  }
  return node !== undefined && HEADS.has(node.opType) ? node : undefined
}

/**
 * Changes a model to slice before its head. Answers false, and changes nothing, where it cannot be told for
 * certain from the graph which node that is.
 */
export function sliceBeforeHead (model: OnnxModel, logits: string): boolean {
  if (opsetOf(model) < SLICE_OPSET) return false
  const index = indexGraph(model)
  const head = findHead(index, logits)
  const hidden = head?.input[0] ?? ''
  if (head === undefined || !index.producer.has(hidden)) return false
  const { node, initializer } = model.graph
  node.splice(node.indexOf(head), 0, nodeOf('Slice', [hidden, ...BOUNDS.map(([name]) => name)], SLICE))
  initializer.push(...BOUNDS.map(([name, value]) => int64Tensor(name, [value])))
  head.input[0] = SLICE
  return true
}

/** Since then there is GatherElements. */
const MIN_OPSET = 11

/** An input or output as sessions describe it. */
function sessionPort (bytes: Uint8Array): Port {
  const { name, elemType, dims } = portOf(bytes)
  const type = Object.entries(ELEMENT).find(([, number]) => number === elemType)?.[0]
  return { name, type: type ?? `number ${elemType}`, shape: dims }
}

/** Sizes of a tensor around its rows and entries, as `Expand` takes them. */
const shapeOf = ({ lead, heads, width }: CacheTensor): number[] =>
  lead === 1 ? [1, heads, 1, width] : [lead, 1, heads, 1, width]

const indexOf = (tensor: CacheTensor): string => `svc_index_${shapeOf(tensor).join('x')}`

/**
 * Changes a model to give new entries as outputs (bind.ts: newEntriesOf) instead of the whole KV cache; the
 * input `svc_places` (int64 `[rows, 1, added, 1]`) says where in it they are. Answers the outputs before
 * that; undefined, and nothing changed, below opset 11.
 * @throws EngineError for a graph that cannot be bound
 */
export function giveNewEntries (model: OnnxModel, sizes: Sizes, names?: Names): Port[] | undefined {
  if (opsetOf(model) < MIN_OPSET) return undefined
  const { graph } = model
  // Older files list weights among the inputs.
  const weights = new Set(graph.initializer.map((bytes) => tensorName(bytes).name))
  const inputs = graph.input.map(sessionPort).filter(({ name }) => !weights.has(name))
  const outputs = graph.output.map(sessionPort)
  const tensors = bind(inputs, outputs, sizes, names).tensors.filter(({ grows }) => grows)
  for (const [name, shape] of new Map(tensors.map((tensor) => [indexOf(tensor), shapeOf(tensor)]))) {
    graph.initializer.push(int64Tensor(`${name}_shape`, shape))
    graph.node.push(nodeOf('Expand', [PLACES, `${name}_shape`], name))
  }
  const gone = new Set(tensors.map(({ output }) => output))
  graph.output = graph.output.filter((bytes) => !gone.has(valueName(bytes)))
  for (const { output, tensors: members } of newEntriesOf(tensors)) {
    const [{ lead, heads, width, type }] = members as [CacheTensor]
    const axis = lead === 1 ? 2 : 3
    const nameOf = (tensor: CacheTensor): string => `${output}.${tensor.output}`
    const picked = members.map(nameOf)
    // From the last to the first: onnxruntime then picks the entries of a layer before it begins the next
    // one, which gets the memory that is free by that, and still in the cache of the processor.
    for (const tensor of [...members].reverse()) {
      graph.node.push(nodeOf('GatherElements', [tensor.output, indexOf(tensor)], nameOf(tensor), { axis }))
    }
    // One output costs onnxruntime-node less than one for each tensor.
    graph.node.push(nodeOf('Concat', picked, output, { axis: 0 }))
    const rest = lead === 1 ? [] : ['rows']
    graph.output.push(tensorInfo(output, ELEMENT[type], ['all', ...rest, heads, 'added', width]))
  }
  graph.input.push(tensorInfo(PLACES, ELEMENT.int64, ['rows', 1, 'added', 1]))
  return outputs
}

/** Operators that quantise their input by one scale for the whole of it. */
const ONE_SCALE = new Set(
  ['DynamicQuantizeLinear', 'DynamicQuantizeMatMul', 'DynamicQuantizeLSTM', 'QAttention'])

/**
 * True where numbers depend a little on what else is in a call: sequences of a batch, and pieces of a prompt,
 * are quantised by one scale.
 */
export const sharesScale = ({ graph }: OnnxModel): boolean =>
  graph.node.some(({ opType }) => ONE_SCALE.has(opType))

/** Of MatMulNBits: in how many bits it computes at least, and the value for 8. */
const ACCURACY = 'accuracy_level'
const IN_8_BITS = 4

/**
 * Lets products with weights of few bits be computed in 8 bits, with a scale for each block of activations,
 * as llama.cpp does. Where a file says nothing of that, onnxruntime makes floats of the weights. Answers
 * whether there were such products.
 */
export function computeIn8Bits ({ graph }: OnnxModel): boolean {
  const open = graph.node.filter((node) =>
    node.opType === 'MatMulNBits' && (attributesOf(node).get(ACCURACY)?.i ?? 0) === 0)
  for (const node of open) {
    const names = [...attributesOf(node).keys()]
    node.attribute = [...node.attribute.filter((_, i) => names[i] !== ACCURACY),
      encodeMessage('AttributeProto', { name: ACCURACY, i: IN_8_BITS, type: ATTRIBUTE.int })]
  }
  return open.length > 0
}

/**
 * A changed graph: its bytes, and whether its head was `sliced`. `outputs` are those before the change, where
 * it gives back new entries.
 */
export interface ChangedGraph { bytes: Uint8Array, sliced: boolean, outputs: Port[] | undefined }

/**
 * A graph with its changes, as far as they can be made; undefined where none can. `in8Bits`: whether products
 * are to be computed so.
 * @throws EngineError for a graph that cannot be bound
 */
export function changedGraph (
  model: OnnxModel, in8Bits: boolean, sizes: Sizes, names: Names
): ChangedGraph | undefined {
  const sliced = sliceBeforeHead(model, names.logits)
  const outputs = giveNewEntries(model, sizes, names)
  const lowered = in8Bits && computeIn8Bits(model)
  const changed = sliced || outputs !== undefined || lowered
  return changed ? { bytes: encodeModel(model), sliced, outputs } : undefined
}
