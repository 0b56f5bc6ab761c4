/**
 * Has a graph give back the new entries of keys and values only. onnxruntime-node copies every output into
 * fresh memory, and the whole state is most of what a decoder gives back. Works on the bytes of the file;
 * field numbers are those of onnx.proto.
 */
import { NEW, PLACES, bind, type Names, type Port, type Sizes, type Slot } from './bind.js'
import { GRAPH, NUMBERS, TENSOR, graphOf, int64s, nodeOf, only, withGraph } from './onnx-file.js'
import { bytesField, fieldsOf, textOf, varintField, type Range } from './wire.js'

const VALUE = { name: 1, type: 2 } as const
const TYPE = { tensor: 1 } as const
const TENSOR_TYPE = { element: 1, shape: 2 } as const
const DIM = { value: 1, name: 2 } as const
/** Since then there is GatherElements. */
const LEAST_OPSET = 11
const ELEMENTS: Readonly<Record<number, string>> = { 1: 'float32', 6: 'int32', 7: 'int64', 10: 'float16' }

type Bytes = Uint8Array

function dimOf (bytes: Bytes, range: Range): number | string {
  const value = only(bytes, range, DIM.value)
  if (value !== undefined) return value.value
  const name = only(bytes, range, DIM.name)
  return name === undefined ? '' : textOf(bytes, name)
}

/** An input or output as the file declares it. */
function portOf (bytes: Bytes, range: Range): Port {
  const name = only(bytes, range, VALUE.name)
  const type = only(bytes, range, VALUE.type)
  const tensor = type && only(bytes, type, TYPE.tensor)
  const element = tensor && only(bytes, tensor, TENSOR_TYPE.element)
  const shape = tensor && only(bytes, tensor, TENSOR_TYPE.shape)
  return {
    name: name === undefined ? '' : textOf(bytes, name),
    type: ELEMENTS[element?.value ?? 0] ?? `number ${element?.value ?? 0}`,
    shape: shape === undefined ? [] : [...fieldsOf(bytes, shape)].map(dim => dimOf(bytes, dim))
  }
}

interface Ports { inputs: Port[], outputs: Port[] }

/** Inputs and outputs of a graph; weights that older files list as inputs are none. */
function portsIn (bytes: Bytes, graph: Range): Ports {
  const ports: Ports = { inputs: [], outputs: [] }
  const weights = new Set<string>()
  for (const field of fieldsOf(bytes, graph)) {
    if (field.number === GRAPH.input) ports.inputs.push(portOf(bytes, field))
    else if (field.number === GRAPH.output) ports.outputs.push(portOf(bytes, field))
    else if (field.number === GRAPH.initializer) {
      const name = only(bytes, field, TENSOR.name)
      if (name !== undefined) weights.add(textOf(bytes, name))
    }
  }
  return { ...ports, inputs: ports.inputs.filter(({ name }) => !weights.has(name)) }
}

function valueInfo (
  field: number, name: string, element: number, dims: ReadonlyArray<number | string>
): Buffer {
  const shape = Buffer.concat(dims.map(dim => bytesField(1,
    typeof dim === 'number' ? varintField(DIM.value, dim) : bytesField(DIM.name, dim))))
  const tensor = Buffer.concat(
    [varintField(TENSOR_TYPE.element, element), bytesField(TENSOR_TYPE.shape, shape)])
  const type = bytesField(VALUE.type, bytesField(TYPE.tensor, tensor))
  return bytesField(field, Buffer.concat([bytesField(VALUE.name, name), type]))
}

/** Sizes of a slot around its rows and entries, as `Expand` takes them. */
const shapeOf = ({ lead, heads, width }: Slot): number[] =>
  lead === 1 ? [1, heads, 1, width] : [lead, 1, heads, 1, width]

const indexOf = (slot: Slot): string => `svc_index_${shapeOf(slot).join('x')}`

/** Picks the entries at the given places out of every state. */
function picking (slots: readonly Slot[]): Buffer[] {
  const indexes = new Map(slots.map(slot => [indexOf(slot), shapeOf(slot)]))
  const expanded = [...indexes].flatMap(([name, shape]) =>
    [int64s(`${name}_shape`, shape), nodeOf('Expand', [PLACES, `${name}_shape`], name)])
  const picked = slots.flatMap(slot => {
    const dims = slot.lead === 1 ? [] : [slot.lead]
    const name = NEW + slot.output
    return [
      nodeOf('GatherElements', [slot.output, indexOf(slot)], name, dims.length + 2),
      valueInfo(GRAPH.output, name, NUMBERS[slot.type], [...dims, 'rows', slot.heads, 'added', slot.width])
    ]
  })
  return [valueInfo(GRAPH.input, PLACES, NUMBERS.int64, ['rows', 1, 'added', 1]), ...expanded, ...picked]
}

/**
 * The file with new entries as outputs instead of whole states; the input `svc_places` (int64
 * `[rows, 1, added, 1]`) says where in the states they are. Undefined for an opset before 11.
 * @throws RangeError for bytes that are no ONNX file, EngineError for a graph that cannot be bound
 */
export function giveNewEntries (bytes: Bytes, sizes: Sizes, names?: Names): Bytes | undefined {
  const graph = graphOf(bytes, LEAST_OPSET)
  if (graph === undefined) return undefined
  const { inputs, outputs } = portsIn(bytes, graph)
  const slots = bind(inputs, outputs, sizes, names).slots.filter(({ grows }) => grows)
  const gone = new Set(slots.map(({ output }) => output))
  const kept = [...fieldsOf(bytes, graph)].filter(field =>
    field.number !== GRAPH.output || !gone.has(portOf(bytes, field).name))
  return withGraph(bytes, graph,
    [...kept.map(({ start, to }) => bytes.subarray(start, to)), ...picking(slots)])
}
