/**
 * Takes the last token's hidden state before the head of a graph, so that a prompt does not pay for the
 * logits of all its tokens. Works on the bytes of the file; field numbers are those of onnx.proto.
 */
import { GRAPH, NODE, TENSOR, graphOf, int64s, nodeOf, withGraph } from './onnx-file.js'
import { bytesField, fieldsOf, textOf, type Field } from './wire.js'

/** Since then the bounds of a Slice are inputs. */
const SLICE_OPSET = 10
/** Nodes between the head and the logits that work on each number by itself. */
const AFTER_HEAD = new Set(['Cast', 'Mul', 'Div', 'Add', 'Tanh', 'Identity'])
const HEADS = new Set(['MatMul', 'MatMulNBits', 'MatMulInteger'])
/** The longest way from the logits to the head, softcaps and scales included. */
const MOST_STEPS = 12

interface Node { range: Field, inputs: Field[], opType: string }

interface Graph { field: Field, nodes: Map<string, Node>, initializers: Set<string> }

function readNode (bytes: Uint8Array, range: Field): { node: Node, outputs: string[] } {
  const node: Node = { range, inputs: [], opType: '' }
  const outputs: string[] = []
  for (const field of fieldsOf(bytes, range)) {
    if (field.number === NODE.input) node.inputs.push(field)
    else if (field.number === NODE.output) outputs.push(textOf(bytes, field))
    else if (field.number === NODE.opType) node.opType = textOf(bytes, field)
  }
  return { node, outputs }
}

function readGraph (bytes: Uint8Array, field: Field): Graph {
  const graph: Graph = { field, nodes: new Map(), initializers: new Set() }
  for (const part of fieldsOf(bytes, field)) {
    if (part.number === GRAPH.node) {
      const { node, outputs } = readNode(bytes, part)
      for (const name of outputs) graph.nodes.set(name, node)
    } else if (part.number === GRAPH.initializer) {
      for (const piece of fieldsOf(bytes, part)) {
        if (piece.number === TENSOR.name) graph.initializers.add(textOf(bytes, piece))
      }
    }
  }
  return graph
}

/** The input that carries the value on: the first one that another node makes. */
function upstream (bytes: Uint8Array, graph: Graph, node: Node): Field | undefined {
  return node.inputs.find(field => {
    const name = textOf(bytes, field)
    return graph.nodes.has(name) && !graph.initializers.has(name)
  })
}

/** The node whose first input is the hidden state of all tokens. */
function findHead (bytes: Uint8Array, graph: Graph, logits: string): Node | undefined {
  let node = graph.nodes.get(logits)
  for (let steps = 0; node !== undefined && steps < MOST_STEPS; steps++) {
    if (HEADS.has(node.opType)) break
    if (!AFTER_HEAD.has(node.opType)) return undefined
    const field = upstream(bytes, graph, node)
    node = field === undefined ? undefined : graph.nodes.get(textOf(bytes, field))
  }
  if (node?.opType !== 'MatMulInteger') return node !== undefined && HEADS.has(node.opType) ? node : undefined
  const [first] = node.inputs
  const quantize = first === undefined ? undefined : graph.nodes.get(textOf(bytes, first))
  return quantize?.opType === 'DynamicQuantizeLinear' ? quantize : undefined
}

const PREFIX = 'svc_last_token'
const CONSTANTS: ReadonlyArray<[string, number]> =
  [[`${PREFIX}_start`, -1], [`${PREFIX}_end`, 2 ** 62], [`${PREFIX}_axis`, 1]]

/** The node again, reading the slice instead of its first input. */
function rewired (bytes: Uint8Array, { range, inputs }: Node): Buffer {
  const [first] = inputs as [Field]
  return bytesField(GRAPH.node, Buffer.concat([
    bytes.subarray(range.from, first.start),
    bytesField(NODE.input, PREFIX),
    bytes.subarray(first.to, range.to)
  ]))
}

/**
 * The file with a slice before its head. Undefined where that cannot be told for certain from the graph.
 * @throws RangeError for bytes that are no ONNX file
 */
export function sliceBeforeHead (bytes: Uint8Array, logits: string): Uint8Array | undefined {
  const field = graphOf(bytes, SLICE_OPSET)
  if (field === undefined) return undefined
  const graph = readGraph(bytes, field)
  const head = findHead(bytes, graph, logits)
  const hidden = head?.inputs[0]
  if (head === undefined || hidden === undefined) return undefined
  if (!graph.nodes.has(textOf(bytes, hidden))) return undefined
  const added = [
    ...CONSTANTS.map(([name, value]) => int64s(name, [value])),
    nodeOf('Slice', [textOf(bytes, hidden), ...CONSTANTS.map(([name]) => name)], PREFIX), rewired(bytes, head)
  ]
  const { range } = head
  return withGraph(bytes, field,
    [bytes.subarray(field.from, range.start), ...added, bytes.subarray(range.to, field.to)])
}
