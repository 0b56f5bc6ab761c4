/** Tensors, and half-precision floats, which onnxruntime returns as unsigned 16-bit integers. */
import { Tensor } from 'onnxruntime-node'
import type { FloatType, IntegerInput } from './bind.js'

/** A tensor's data; half-precision floats are kept as raw 16-bit patterns. */
type Part = Float32Array | Uint16Array

/** Inputs or outputs by name. */
export type Feeds = Record<string, Tensor>

/**
 * onnxruntime-node up to 1.30 loses half-precision inputs if the global Float16Array exists, as in Node 24:
 * each arrives as 0 bytes (microsoft/onnxruntime#26791, #32323). Without the global, which onnxruntime checks
 * at the first tensor, it uses Uint16Array as on older versions.
 */
export function hideFloat16Array (scope: object): void { Reflect.deleteProperty(scope, 'Float16Array') }

hideFloat16Array(globalThis)

function widen (bits: number): number {
  const sign = (bits & 0x8000) === 0 ? 1 : -1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

let table: Float32Array | undefined

/** Converts half-precision floats without loss. */
export function halfToFloat (halves: Uint16Array): Float32Array {
  const known = table ??= Float32Array.from({ length: 65_536 }, (_, bits) => widen(bits))
  const floats = new Float32Array(halves.length)
  for (let i = 0; i < halves.length; i++) floats[i] = known[halves[i] as number] as number
  return floats
}

export const floatTensor = (type: FloatType, part: Part, dims: readonly number[]): Tensor =>
  part instanceof Float32Array ? new Tensor('float32', part, dims) : new Tensor(type, part, dims)

/** An integer tensor of the type that the graph's input requires. */
export function integerTensor (
  port: IntegerInput, values: ArrayLike<number>, dims: readonly number[]
): Tensor {
  if (port.type === 'int32') return new Tensor('int32', Int32Array.from(values), dims)
  const data = new BigInt64Array(values.length)
  for (let i = 0; i < values.length; i++) data[i] = BigInt(values[i] as number)
  return new Tensor('int64', data, dims)
}
