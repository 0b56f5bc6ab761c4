/** Replaces a graph's RandomNormalLike nodes, which take no seed, with lookups in a request's noise table. */
import { randomInt } from 'node:crypto'
import {
  ELEMENT, attributesOf, int64Tensor, nodeOf, tensorInfo, type GraphIndex, type OnnxModel, type OnnxNode
} from '../../runners/onnx/engine.js'
import type { SpeechRequest, SpeechUnit } from './family.js'
import { float32, int64, type Feeds } from './sessions.js'

export const NOISE_LENGTH = 131_071
/** Graph inputs that `seedNoise` adds: float32 [NOISE_LENGTH], and int64 [] with the start index. */
export const NOISE_INPUT = 'svc_noise'
export const NOISE_START = 'svc_noise_start'

const RANDOM = new Set(['RandomNormal', 'RandomNormalLike', 'RandomUniform', 'RandomUniformLike', 'Bernoulli',
  'Multinomial'])
// Distance between the table offsets of consecutive nodes, and of consecutive units.
const NODE_STRIDE = 40_961
const UNIT_STRIDE = 17_389

/** Uniform numbers in [0, 1) (xorshift128 seeded by splitmix32), reproducible by seed everywhere. */
export function uniform (seed: number): () => number {
  let mix = seed >>> 0
  const split = (): number => {
    mix = (mix + 0x9e3779b9) >>> 0
    let z = mix
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) >>> 0
  }
  let [a, b, c, d] = [split(), split(), split(), split() | 1]
  return () => {
    const t = a ^ (a << 11)
    a = b
    b = c
    c = d
    d = (d ^ (d >>> 19) ^ t ^ (t >>> 8)) >>> 0
    return d / 4_294_967_296
  }
}

export function gaussian (seed: number, length: number): Float32Array {
  const next = uniform(seed)
  const out = new Float32Array(length)
  for (let i = 0; i < length; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - next()))
    const angle = 2 * Math.PI * next()
    out[i] = radius * Math.cos(angle)
    if (i + 1 < length) out[i + 1] = radius * Math.sin(angle)
  }
  return out
}

/** Whether a node draws standard normal noise, which `lookup` can replace. */
function replaceable (node: OnnxNode): boolean {
  if (node.opType !== 'RandomNormalLike') return false
  const attributes = attributesOf(node)
  return (attributes.get('mean')?.f ?? 0) === 0 && (attributes.get('scale')?.f ?? 1) === 1
}

/** Looks up table[(start + k * stride + 0 … size - 1) mod length], in the shape of the node's input. */
function lookup (node: OnnxNode, k: number): { nodes: OnnxNode[], initializer: Uint8Array } {
  const at = (part: string): string => `svc_noise_${k}_${part}`
  const [like = ''] = node.input
  const [output = ''] = node.output
  return {
    initializer: int64Tensor(at('offset'), [k * NODE_STRIDE], []),
    nodes: [
      nodeOf('Size', [like], at('size')),
      nodeOf('Shape', [like], at('shape')),
      nodeOf('Add', [NOISE_START, at('offset')], at('from')),
      nodeOf('Add', [at('from'), at('size')], at('to')),
      nodeOf('Range', [at('from'), at('to'), 'svc_noise_one'], at('range')),
      nodeOf('Mod', [at('range'), 'svc_noise_length'], at('index')),
      nodeOf('Gather', [NOISE_INPUT, at('index')], at('flat')),
      nodeOf('Reshape', [at('flat'), at('shape')], output)
    ]
  }
}

/** `seeded`: no unseeded random nodes remain; `fed`: the model has the noise inputs. */
export function seedNoise (index: GraphIndex): { model: OnnxModel, seeded: boolean, fed: boolean } {
  const { model } = index
  const random = model.graph.node.filter((node) => RANDOM.has(node.opType))
  if (random.length === 0) return { model, seeded: true, fed: false }
  if (!random.every(replaceable)) return { model, seeded: false, fed: false }
  const initializer = [
    int64Tensor('svc_noise_one', [1], []), int64Tensor('svc_noise_length', [NOISE_LENGTH], [])
  ]
  let k = 0
  const node = model.graph.node.flatMap((n) => {
    if (!replaceable(n)) return [n]
    const replaced = lookup(n, k++)
    initializer.push(replaced.initializer)
    return replaced.nodes
  })
  const input = [
    ...model.graph.input,
    tensorInfo(NOISE_INPUT, ELEMENT.float32, [NOISE_LENGTH]),
    tensorInfo(NOISE_START, ELEMENT.int64, [])
  ]
  const graph = { ...model.graph, node, input, initializer: [...model.graph.initializer, ...initializer] }
  return { model: { ...model, graph }, seeded: true, fed: true }
}

/** The noise inputs of a run. A request has one table; its units start at different offsets. */
export function createNoiseInputs (): (request: SpeechRequest, unit: SpeechUnit) => Feeds {
  const tables = new WeakMap<SpeechRequest, Float32Array>()
  return (request, unit) => {
    const table = tables.get(request) ?? gaussian(request.seed ?? randomInt(2 ** 32), NOISE_LENGTH)
    tables.set(request, table)
    const start = unit.index * UNIT_STRIDE % NOISE_LENGTH
    return { [NOISE_INPUT]: float32(table, [NOISE_LENGTH]), [NOISE_START]: int64([start], []) }
  }
}
