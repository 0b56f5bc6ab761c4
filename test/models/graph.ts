/** Writes ONNX graphs with the operators that exporters use, in any of the forms that are published. */
import {
  ATTRIBUTE, encodeMessage, encodeModel, tensorInfo, type OnnxNode
} from '../../plugins/onnx/engine.js'
import { BLOCK, halves, randomWeights, toBytes, toNibbles, transposed } from './weights.js'

/** Element types by the numbers of TensorProto. */
export const TYPE = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7, bool: 9, float16: 10 } as const
export type Type = keyof typeof TYPE

/** How weights are kept, by the names of transformers.js; and the endings of their files. */
export const SUFFIXES = { fp32: '', fp16: '_fp16', q8: '_quantized', q4: '_q4', q4f16: '_q4f16' } as const
export type Dtype = keyof typeof SUFFIXES
export const DTYPES = Object.keys(SUFFIXES) as Dtype[]

type Dims = ReadonlyArray<number | string>
type Attribute = number | string | readonly number[] | { float: number } | { graph: GraphBody }
interface GraphBody { name: string, node: OnnxNode[], output: Uint8Array[] }

/** Operators of onnxruntime's own domain. */
const CONTRIB = new Set(['GroupQueryAttention', 'RotaryEmbedding', 'SkipSimplifiedLayerNormalization',
  'MatMulNBits', 'GatherBlockQuantized', 'FastGelu'])

function attribute (name: string, value: Attribute): Uint8Array {
  const fields = typeof value === 'number'
    ? { i: value, type: ATTRIBUTE.int }
    : typeof value === 'string'
      ? { s: Buffer.from(value), type: ATTRIBUTE.string }
      : 'float' in value
        ? { f: value.float, type: ATTRIBUTE.float }
        : 'graph' in value
          ? { g: value.graph, type: ATTRIBUTE.graph }
          : { ints: value, type: ATTRIBUTE.ints }
  return encodeMessage('AttributeProto', { name, ...fields })
}

/** A tensor of the file: its bytes lie in the graph, or beside it. */
interface Stored { name: string, type: Type, dims: readonly number[], bytes: Uint8Array }

/** Smaller ones stay in the graph, as onnx's writer has it. */
const EXTERNAL_BYTES = 1024
const DATA_ALIGNMENT = 64

/** What a graph is written as. */
export interface Written { graph: Uint8Array, data: Uint8Array[] }

/** Collects a graph; methods answer the name of the tensor they made. */
export class Graph {
  readonly dtype: Dtype
  /** Type of hidden states. */
  readonly real: 'float32' | 'float16'
  /** Whether 8-bit weights have a sign; exporters take it away beside attention operators. */
  private readonly signed: boolean
  /** Whether products with four-bit weights are to be computed in eight bits. */
  private readonly in8Bits: boolean
  private readonly seed: string
  private readonly nodes: OnnxNode[] = []
  private readonly stored = new Map<string, Stored>()
  private readonly ports = { input: [] as Uint8Array[], output: [] as Uint8Array[] }
  private count = 0

  constructor (seed: string, dtype: Dtype, { signed = false, in8Bits = false } = {}) {
    this.seed = seed
    this.dtype = dtype
    this.real = dtype === 'fp16' || dtype === 'q4f16' ? 'float16' : 'float32'
    this.signed = signed
    this.in8Bits = in8Bits
  }

  input (name: string, type: Type, dims: Dims): string {
    this.ports.input.push(tensorInfo(name, TYPE[type], [...dims]))
    return name
  }

  output (name: string, type: Type, dims: Dims): void {
    this.ports.output.push(tensorInfo(name, TYPE[type], [...dims]))
  }

  /** Adds an operator; of several outputs the names are given, and the first one is answered. */
  op (type: string, input: readonly string[], attributes: Record<string, Attribute> = {},
    output: readonly string[] = [`/${type}_${this.count++}`]): string {
    this.nodes.push(nodeOf(type, input, attributes, output))
    return output[0] as string
  }

  cast (tensor: string, type: Type): string { return this.op('Cast', [tensor], { to: TYPE[type] }) }

  /** Whole numbers; without `dims` in a row. */
  ints (values: readonly number[], dims: readonly number[] = [values.length]): string {
    return this.constant('int64', dims, BigInt64Array.from(values, (value) => BigInt(value)))
  }

  /** One number of the type of hidden states. */
  number (value: number): string { return this.reals(`number_${this.count++}`, [], Float32Array.of(value)) }

  /** Numbers of the type of hidden states. */
  reals (name: string, dims: readonly number[], values: Float32Array): string {
    return this.store(name, this.real, dims, this.real === 'float16' ? halves(values) : values)
  }

  /** Factors near 1, as norms have them. */
  gains (name: string, size: number): string {
    return this.reals(name, [size], randomWeights(this.seed + name, size, 0.2).map((value) => 1 + value))
  }

  /** Random numbers, never quantised. */
  plain (name: string, dims: readonly number[], deviation: number): string {
    const size = dims.reduce((a, b) => a * b, 1)
    return this.reals(name, dims, randomWeights(this.seed + name, size, deviation))
  }

  /** x times random weights `[width, size]`, as this form keeps them. */
  linear (x: string, name: string, width: number, size: number, gain = 1): string {
    const values = randomWeights(this.seed + name, width * size, gain / Math.sqrt(width))
    if (this.dtype === 'q8') return this.dynamic('MatMulInteger', x, name, [width, size], values)
    if (this.dtype === 'fp32' || this.dtype === 'fp16') {
      return this.op('MatMul', [x, this.reals(name, [width, size], values)])
    }
    const { q, scales } = toNibbles(transposed(values, width, size), width)
    const weights = this.store(`${name}_Q4`, 'uint8', [size, width / BLOCK, BLOCK / 2], q)
    return this.op('MatMulNBits', [x, weights, this.reals(`${name}_scales`, [scales.length], scales)],
      { K: width, N: size, bits: 4, block_size: BLOCK, ...this.in8Bits ? { accuracy_level: 4 } : {} })
  }

  /** A depthwise convolution along the last dimension, with kernels of `taps`. */
  depthwise (x: string, name: string, channels: number, taps: number): string {
    const values = randomWeights(this.seed + name, channels * taps, 1 / Math.sqrt(taps))
    const attributes = { group: channels, kernel_shape: [taps] }
    const dims = [channels, 1, taps]
    if (this.dtype === 'q8') return this.dynamic('ConvInteger', x, name, dims, values, attributes)
    return this.op('Conv', [x, this.reals(name, dims, values)], attributes)
  }

  /** What quantize_dynamic makes of an operator: one scale for all of its input. */
  private dynamic (type: string, x: string, name: string, dims: readonly number[], values: Float32Array,
    attributes: Record<string, Attribute> = {}): string {
    const { q, scale, zero } = toBytes(values, this.signed)
    const [xq, xScale, xZero] = ['quantized', 'scale', 'zero_point'].map((part) => `${name}_input_${part}`)
    this.op('DynamicQuantizeLinear', [x], {}, [xq, xScale, xZero] as string[])
    const bytes = this.signed ? 'int8' : 'uint8'
    const product = this.op(type, [xq as string, this.store(`${name}_quantized`, bytes, dims, q),
      xZero as string, this.store(`${name}_zero_point`, bytes, [], Uint8Array.of(zero))], attributes)
    const scales = this.op('Mul', [xScale as string, this.single(`${name}_scale`, scale)])
    return this.op('Mul', [this.cast(product, 'float32'), scales])
  }

  /** Rows of a table by ids. `blocks`: quantised in blocks where weights have four bits. */
  embed (ids: string, name: string, rows: number, width: number, { blocks = false } = {}): string {
    const values = randomWeights(this.seed + name, rows * width, 1)
    if (this.dtype === 'q8') {
      const { q, scale, zero } = toBytes(values, this.signed)
      const bytes = this.signed ? 'int8' : 'uint8'
      const picked = this.op('Gather', [this.store(`${name}_quantized`, bytes, [rows, width], q), ids])
      return this.op('DequantizeLinear', [picked, this.single(`${name}_scale`, scale),
        this.store(`${name}_zero_point`, bytes, [], Uint8Array.of(zero))])
    }
    if (!blocks || !this.dtype.startsWith('q4')) {
      return this.op('Gather', [this.reals(name, [rows, width], values), ids])
    }
    const { q, scales } = toNibbles(values, width)
    return this.op('GatherBlockQuantized', [this.store(`${name}_Q4`, 'uint8', [rows, width / 2], q), ids,
      this.reals(`${name}_scales`, [rows, width / BLOCK], scales)],
    { bits: 4, block_size: BLOCK, gather_axis: 0, quantize_axis: 1 })
  }

  /** One of two lists of tensors of the file, by a condition. */
  either (condition: string, yes: readonly string[], no: readonly string[], dims: Dims): string[] {
    const body = (name: string, tensors: readonly string[]): Attribute => ({ graph: {
      name,
      node: tensors.map((tensor) => nodeOf('Identity', [tensor], {}, [`${name}_${tensor}`])),
      output: tensors.map((tensor) => tensorInfo(`${name}_${tensor}`, TYPE[this.real], [...dims]))
    } })
    const outputs = yes.map(() => `/If_${this.count++}`)
    this.op('If', [condition], { then_branch: body('then', yes), else_branch: body('else', no) }, outputs)
    return outputs
  }

  private single (name: string, value: number): string {
    return this.store(name, 'float32', [], Float32Array.of(value))
  }

  private constant (type: Type, dims: readonly number[], values: ArrayBufferView): string {
    return this.store(`const_${this.count++}`, type, dims, values)
  }

  private store (name: string, type: Type, dims: readonly number[], values: ArrayBufferView): string {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength)
    this.stored.set(name, { name, type, dims, bytes })
    return name
  }

  /** The file; with the names of files beside it, its large tensors go there, in equal numbers. */
  write (opset: number, beside: readonly string[] = []): Written {
    const data: Uint8Array[][] = beside.map(() => [])
    const large = [...this.stored.values()].filter(({ bytes }) => bytes.length >= EXTERNAL_BYTES)
    const initializer = [...this.stored.values()].map((tensor) => {
      const at = Math.floor(large.indexOf(tensor) * beside.length / large.length)
      const parts = data[at]
      if (parts === undefined || !large.includes(tensor)) return tensorOf(tensor)
      const offset = parts.reduce((sum, part) => sum + part.length, 0)
      const padding = -tensor.bytes.length & DATA_ALIGNMENT - 1
      parts.push(tensor.bytes, new Uint8Array(padding))
      return elsewhere(tensor, beside[at] as string, offset)
    })
    const opsetImport = [['', opset], ['com.microsoft', 1]].map(([domain, version]) =>
      encodeMessage('OperatorSetIdProto', { domain, version }))
    const graph = encodeModel({
      irVersion: 10, producerName: 'svc-test', metadataProps: [], opsetImport,
      graph: { name: 'main_graph', node: this.nodes, initializer, ...this.ports, valueInfo: [] }
    })
    return { graph, data: data.map((parts) => Buffer.concat(parts)) }
  }
}

function nodeOf (type: string, input: readonly string[], attributes: Record<string, Attribute>,
  output: readonly string[]): OnnxNode {
  return {
    opType: type, input: [...input], output: [...output], name: `/${type}/${output[0] as string}`,
    domain: CONTRIB.has(type) ? 'com.microsoft' : '',
    attribute: Object.entries(attributes).map(([name, value]) => attribute(name, value))
  }
}

const tensorOf = ({ name, type, dims, bytes }: Stored): Uint8Array =>
  encodeMessage('TensorProto', { dims, dataType: TYPE[type], name, rawData: bytes })

/** A tensor in another file: fields 13, where it lies, and 14, that it does (onnx.proto). */
function elsewhere ({ name, type, dims, bytes }: Stored, location: string, offset: number): Uint8Array {
  const place = { location, offset, length: bytes.length }
  const entries = Object.entries(place).flatMap(([key, value]) => {
    const entry = encodeMessage('StringStringEntryProto', { key, value: String(value) })
    return [Uint8Array.of(13 << 3 | 2, entry.length), entry]
  })
  const head = encodeMessage('TensorProto', { dims, dataType: TYPE[type], name })
  return Buffer.concat([head, ...entries, Uint8Array.of(14 << 3, 1)])
}
