/**
 * Parts of ONNX files that are read and written to change a graph. Works on the bytes of the file; field
 * numbers are those of onnx.proto.
 */
import { bytesField, fieldsOf, headOf, textOf, varintField, type Field, type Range } from './wire.js'

const MODEL = { graph: 7, opset: 8 } as const
const OPSET = { domain: 1, version: 2 } as const
const ATTRIBUTE = { name: 1, int: 3, type: 20 } as const
const INT = 2
/** Fields of a graph and of what it consists of. */
export const GRAPH = { node: 1, initializer: 5, input: 11, output: 12 } as const
export const NODE = { input: 1, output: 2, opType: 4, attribute: 5 } as const
export const TENSOR = { dims: 1, type: 2, name: 8, raw: 9 } as const
/** Element types. */
export const NUMBERS = { float32: 1, int64: 7, float16: 10 } as const

/** The first field with that number. */
export const only = (bytes: Uint8Array, range: Range, number: number): Field | undefined =>
  [...fieldsOf(bytes, range)].find(field => field.number === number)

/** Whether a file's entry of operators is the standard ones, of that version or a later one. */
function isOpset (bytes: Uint8Array, range: Range, least: number): boolean {
  const domain = only(bytes, range, OPSET.domain)
  const name = domain === undefined ? '' : textOf(bytes, domain)
  return (name === '' || name === 'ai.onnx') && (only(bytes, range, OPSET.version)?.value ?? 0) >= least
}

/**
 * The graph of a file whose standard operators are of version `least` or later; undefined for any other.
 * @throws RangeError for bytes that are no ONNX file
 */
export function graphOf (bytes: Uint8Array, least: number): Field | undefined {
  const fields = [...fieldsOf(bytes, { from: 0, to: bytes.length })]
  const modern = fields.some(field => field.number === MODEL.opset && isOpset(bytes, field, least))
  return modern ? fields.find(({ number }) => number === MODEL.graph) : undefined
}

/** The file with another content of its graph. */
export function withGraph (bytes: Uint8Array, graph: Field, content: readonly Uint8Array[]): Uint8Array {
  const length = content.reduce((sum, part) => sum + part.length, 0)
  return Buffer.concat([
    bytes.subarray(0, graph.start), headOf(MODEL.graph, length), ...content, bytes.subarray(graph.to)
  ])
}

/** A constant for a graph: whole numbers in a row. */
export function int64s (name: string, values: readonly number[]): Buffer {
  const raw = Buffer.from(BigInt64Array.from(values, BigInt).buffer)
  return bytesField(GRAPH.initializer, Buffer.concat([
    varintField(TENSOR.dims, values.length), varintField(TENSOR.type, NUMBERS.int64),
    bytesField(TENSOR.name, name), bytesField(TENSOR.raw, raw)
  ]))
}

/** A node for a graph, with one output. */
export function nodeOf (type: string, inputs: readonly string[], output: string, axis?: number): Buffer {
  const attribute = axis === undefined
    ? []
    : [bytesField(NODE.attribute, Buffer.concat([
        bytesField(ATTRIBUTE.name, 'axis'), varintField(ATTRIBUTE.int, axis), varintField(ATTRIBUTE.type, INT)
      ]))]
  return bytesField(GRAPH.node, Buffer.concat([
    ...inputs.map(name => bytesField(NODE.input, name)), bytesField(NODE.output, output),
    bytesField(NODE.opType, type), ...attribute
  ]))
}
