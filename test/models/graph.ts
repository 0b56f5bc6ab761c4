/** Writes ONNX graphs with the operators that common exporters use, in all published dtypes. */
import {
  ATTRIBUTE, encodeMessage, encodeModel, tensorInfo, type OnnxNode
} from '../../plugins/runners/onnx/engine.js'
import { BLOCK, halves, randomWeights, toBytes, toNibbles, transposed } from './weights.js'

/** Element types with their numbers in TensorProto. */
export const TYPE = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7, bool: 9, float16: 10 } as const
export type Type = keyof typeof TYPE

/** File name suffixes by dtype, as transformers.js names dtypes. */
export const SUFFIXES = { fp32: '', fp16: '_fp16', q8: '_quantized', q4: '_q4' } as const
export type Dtype = keyof typeof SUFFIXES
export const DTYPES = Object.keys(SUFFIXES) as Dtype[]

type Dims = ReadonlyArray<number | string>
type Attribute = number | string | readonly number[] | { float: number }

/** Operators in onnxruntime's own domain (com.microsoft). */
const CONTRIB = new Set(['MatMulNBits'])

function attribute (name: string, value: Attribute): Uint8Array {
  const fields = typeof value === 'number'
    ? { i: value, type: ATTRIBUTE.int }
    : typeof value === 'string'
      ? { s: Buffer.from(value), type: ATTRIBUTE.string }
      : 'float' in value ? { f: value.float, type: ATTRIBUTE.float } : { ints: value, type: ATTRIBUTE.ints }
  return encodeMessage('AttributeProto', { name, ...fields })
}

interface Stored { name: string, type: Type, dims: readonly number[], bytes: Uint8Array }

/** Builds a graph; its methods return the name of the tensor that they add. */
export class Graph {
  readonly dtype: Dtype
  /** Element type of the hidden states. */
  readonly real: 'float32' | 'float16'
  private readonly seed: string
  private readonly nodes: OnnxNode[] = []
  private readonly stored = new Map<string, Stored>()
  private readonly ports = { input: [] as Uint8Array[], output: [] as Uint8Array[] }
  private count = 0

  constructor (seed: string, dtype: Dtype) {
    this.seed = seed
    this.dtype = dtype
    this.real = dtype === 'fp16' ? 'float16' : 'float32'
  }

  input (name: string, type: Type, dims: Dims): string {
    this.ports.input.push(tensorInfo(name, TYPE[type], [...dims]))
    return name
  }

  output (name: string, type: Type, dims: Dims): void {
    this.ports.output.push(tensorInfo(name, TYPE[type], [...dims]))
  }

  /** Adds an operator. For several outputs, `names` lists them, and the first is returned. */
  op (type: string, input: readonly string[], attributes: Record<string, Attribute> = {},
    output: readonly string[] = [`/${type}_${this.count++}`]): string {
    this.nodes.push(nodeOf(type, input, attributes, output))
    return output[0] as string
  }

  cast (tensor: string, type: Type): string { return this.op('Cast', [tensor], { to: TYPE[type] }) }

  /** An integer tensor; a vector if `dims` is absent. */
  ints (values: readonly number[], dims: readonly number[] = [values.length]): string {
    return this.constant('int64', dims, BigInt64Array.from(values, (value) => BigInt(value)))
  }

  /** A scalar in the element type of the hidden states. */
  number (value: number): string { return this.reals(`number_${this.count++}`, [], Float32Array.of(value)) }

  /** A constant tensor in the element type of the hidden states. */
  reals (name: string, dims: readonly number[], values: Float32Array): string {
    return this.store(name, this.real, dims, this.real === 'float16' ? halves(values) : values)
  }

  /** Random factors near 1, as in trained norms. */
  gains (name: string, size: number): string {
    return this.reals(name, [size], randomWeights(this.seed + name, size, 0.2).map((value) => 1 + value))
  }

  /** Random weights that are never quantised. */
  plain (name: string, dims: readonly number[], deviation: number): string {
    const size = dims.reduce((a, b) => a * b, 1)
    return this.reals(name, dims, randomWeights(this.seed + name, size, deviation))
  }

  /** x times random weights `[width, size]`, stored in this graph's dtype. */
  linear (x: string, name: string, width: number, size: number, gain = 1): string {
    const values = randomWeights(this.seed + name, width * size, gain / Math.sqrt(width))
    if (this.dtype === 'q8') return this.dynamic('MatMulInteger', x, name, [width, size], values)
    if (this.dtype === 'fp32' || this.dtype === 'fp16') {
      return this.op('MatMul', [x, this.reals(name, [width, size], values)])
    }
    const { q, scales } = toNibbles(transposed(values, width, size), width)
    const weights = this.store(`${name}_Q4`, 'uint8', [size, width / BLOCK, BLOCK / 2], q)
    return this.op('MatMulNBits', [x, weights, this.reals(`${name}_scales`, [scales.length], scales)],
      { K: width, N: size, bits: 4, block_size: BLOCK })
  }

  /** A dynamically quantised product as quantize_dynamic writes it, with one scale for the whole input. */
  private dynamic (type: string, x: string, name: string, dims: readonly number[], values: Float32Array,
    attributes: Record<string, Attribute> = {}): string {
    const { q, scale } = toBytes(values)
    const [xq, xScale, xZero] = ['quantized', 'scale', 'zero_point'].map((part) => `${name}_input_${part}`)
    this.op('DynamicQuantizeLinear', [x], {}, [xq, xScale, xZero] as string[])
    const bytes = 'int8'
    const product = this.op(type, [xq as string, this.store(`${name}_quantized`, bytes, dims, q),
      xZero as string, this.store(`${name}_zero_point`, bytes, [], Int8Array.of(0))], attributes)
    const scales = this.op('Mul', [xScale as string, this.single(`${name}_scale`, scale)])
    return this.op('Mul', [this.cast(product, 'float32'), scales])
  }

  /** Looks up rows of an embedding table by ids. */
  embed (ids: string, name: string, rows: number, width: number): string {
    const values = randomWeights(this.seed + name, rows * width, 1)
    if (this.dtype === 'q8') {
      const { q, scale } = toBytes(values)
      const bytes = 'int8'
      const picked = this.op('Gather', [this.store(`${name}_quantized`, bytes, [rows, width], q), ids])
      return this.op('DequantizeLinear', [picked, this.single(`${name}_scale`, scale),
        this.store(`${name}_zero_point`, bytes, [], Int8Array.of(0))])
    }
    return this.op('Gather', [this.reals(name, [rows, width], values), ids])
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

  /** Serialises the graph as an ONNX file. */
  write (opset: number): Uint8Array {
    const opsetImport = [['', opset], ['com.microsoft', 1]].map(([domain, version]) =>
      encodeMessage('OperatorSetIdProto', { domain, version }))
    return encodeModel({
      irVersion: 10, producerName: 'svc-test', metadataProps: [], opsetImport,
      graph: {
        name: 'main_graph', node: this.nodes, initializer: [...this.stored.values()].map(tensorOf),
        ...this.ports, valueInfo: []
      }
    })
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
