/**
 * Takes the last token's hidden state before the head of a graph, so that a prompt does not pay for the
 * logits of all its tokens.
 */
import {
  indexGraph, int64Tensor, nodeOf, opsetOf, type GraphIndex, type OnnxModel, type OnnxNode
} from '../../onnx/engine.js'

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

/** The node whose first input is the hidden state of all tokens. */
function findHead (index: GraphIndex, logits: string): OnnxNode | undefined {
  let node = producerOf(index, logits)
  for (let steps = 0; node !== undefined && !HEADS.has(node.opType) && steps < MAX_STEPS; steps++) {
    if (!AFTER_HEAD.has(node.opType)) return undefined
    // The other inputs are constants: scales, and limits of a softcap.
    node = producerOf(index, node.input.find((name) => producerOf(index, name) !== undefined))
  }
  if (node?.opType !== 'MatMulInteger') return node !== undefined && HEADS.has(node.opType) ? node : undefined
  const quantize = producerOf(index, node.input[0])
  return quantize?.opType === 'DynamicQuantizeLinear' ? quantize : undefined
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
