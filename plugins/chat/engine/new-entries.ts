/**
 * Has a graph give back the new entries of keys and values only. onnxruntime-node copies every output into
 * fresh memory, and the whole KV cache is most of what a decoder gives back.
 */
import {
  ELEMENT, int64Tensor, nodeOf, opsetOf, portOf, tensorInfo, tensorName, valueName, type OnnxModel
} from '../../onnx/engine.js'
import { NEW, PLACES, bind, type Names, type Port, type Sizes, type CacheTensor } from './bind.js'

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
 * Changes a model to give new entries as outputs instead of the whole KV cache; the input `svc_places` (int64
 * `[rows, 1, added, 1]`) says where in it they are. Answers false, and changes nothing, below opset 11.
 * @throws EngineError for a graph that cannot be bound
 */
export function giveNewEntries (model: OnnxModel, sizes: Sizes, names?: Names): boolean {
  if (opsetOf(model) < MIN_OPSET) return false
  const { graph } = model
  // Older files list weights among the inputs.
  const weights = new Set(graph.initializer.map((bytes) => tensorName(bytes).name))
  const inputs = graph.input.map(sessionPort).filter(({ name }) => !weights.has(name))
  const binding = bind(inputs, graph.output.map(sessionPort), sizes, names)
  const tensors = binding.tensors.filter(({ grows }) => grows)
  for (const [name, shape] of new Map(tensors.map((tensor) => [indexOf(tensor), shapeOf(tensor)]))) {
    graph.initializer.push(int64Tensor(`${name}_shape`, shape))
    graph.node.push(nodeOf('Expand', [PLACES, `${name}_shape`], name))
  }
  const gone = new Set(tensors.map(({ output }) => output))
  graph.output = graph.output.filter((bytes) => !gone.has(valueName(bytes)))
  for (const tensor of tensors) {
    const lead = tensor.lead === 1 ? [] : [tensor.lead]
    const name = NEW + tensor.output
    const picked = nodeOf('GatherElements', [tensor.output, indexOf(tensor)], name, { axis: lead.length + 2 })
    graph.node.push(picked)
    graph.output.push(
      tensorInfo(name, ELEMENT[tensor.type], [...lead, 'rows', tensor.heads, 'added', tensor.width]))
  }
  graph.input.push(tensorInfo(PLACES, ELEMENT.int64, ['rows', 1, 'added', 1]))
  return true
}
