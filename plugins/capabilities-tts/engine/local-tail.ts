/**
 * Finds the part of a vocoder graph whose samples depend only on nearby frames, and runs it in overlapping
 * pieces that equal one complete run.
 */
import { attributesOf, closureOf, type GraphIndex, type OnnxNode } from '../../runners/onnx/engine.js'
import type { PieceLengths } from './family.js'

/** Where the graph is cut, and how the tail's input frames map to its output samples. */
export interface LocalTail {
  /** Tensor [1, channels, frames] at which the tail starts. */
  tensor: string
  hop: number
  overlap: number
  /** Other graph inputs of the tail (the speaker id of multi-speaker voices). */
  extra: string[]
}

const POINTWISE = new Set(['LeakyRelu', 'Relu', 'Tanh', 'Sigmoid', 'Add', 'Sub', 'Mul', 'Div', 'Cast',
  'Identity', 'Clip', 'Sin', 'Cos', 'Pow', 'Reciprocal', 'Neg', 'Elu', 'PRelu'])
const RESHAPING = new Set(['Unsqueeze', 'Squeeze'])

/** Receptive field in the tail's input: `rate` samples per frame, `left` and `right` in frames. */
interface Reach { rate: number, left: number, right: number }

const ints = (node: OnnxNode, name: string, fallback: number[]): number[] => {
  const value = attributesOf(node).get(name)?.ints
  return value === undefined || value.length === 0 ? fallback : [...value]
}

function convReach (node: OnnxNode, from: Reach): Reach | undefined {
  const kernel = ints(node, 'kernel_shape', [])
  const [stride = 1] = ints(node, 'strides', [1])
  if (kernel.length !== 1 || stride !== 1 || attributesOf(node).has('auto_pad')) return undefined
  const [dilation = 1] = ints(node, 'dilations', [1])
  const [before = 0, after = 0] = ints(node, 'pads', [0, 0])
  const span = ((kernel[0] ?? 1) - 1) * dilation
  // A Conv that changes the length shifts all later samples relative to their frames.
  if (before + after !== span) return undefined
  return { rate: from.rate, left: from.left + before / from.rate, right: from.right + after / from.rate }
}

/** With stride s, output o depends on inputs (o + pad - kernel + 1) / s … (o + pad) / s. */
function convTransposeReach (node: OnnxNode, from: Reach): Reach | undefined {
  const kernel = ints(node, 'kernel_shape', [])
  const [stride = 1] = ints(node, 'strides', [1])
  const [dilation = 1] = ints(node, 'dilations', [1])
  const [before = 0, after = 0] = ints(node, 'pads', [0, 0])
  const [extra = 0] = ints(node, 'output_padding', [0])
  const span = ((kernel[0] ?? 1) - 1) * dilation
  if (kernel.length !== 1 || span + 1 + extra - before - after !== stride) return undefined
  const scale = stride * from.rate
  return { rate: scale, left: from.left + (span - before) / scale, right: from.right + before / scale }
}

/** The receptive field of a node's output; undefined for a node that is not local. */
function nodeReach (node: OnnxNode, reachOf: Map<string, Reach>): Reach | undefined {
  const moving = node.input.map((name) => reachOf.get(name)).filter((r) => r !== undefined)
  const first = moving[0]
  if (first === undefined) return undefined
  const convolve = { Conv: convReach, ConvTranspose: convTransposeReach }[node.opType]
  if (convolve !== undefined) return moving.length === 1 ? convolve(node, first) : undefined
  if (RESHAPING.has(node.opType)) return first
  if (!POINTWISE.has(node.opType) || moving.some((r) => r.rate !== first.rate)) return undefined
  return {
    rate: first.rate, left: Math.max(...moving.map((r) => r.left)),
    right: Math.max(...moving.map((r) => r.right))
  }
}

/** The receptive field of `output` in `tensor`; undefined if any node between them is not local. */
function reachFrom (
  index: GraphIndex, nodes: Set<number>, tensor: string, output: string
): Reach | undefined {
  const reachOf = new Map<string, Reach>([[tensor, { rate: 1, left: 0, right: 0 }]])
  // ONNX graphs are sorted topologically.
  for (const at of [...nodes].sort((a, b) => a - b)) {
    const node = index.model.graph.node[at] as OnnxNode
    if (!node.input.some((name) => reachOf.has(name))) continue
    const reach = nodeReach(node, reachOf)
    if (reach === undefined) return undefined
    for (const name of node.output) reachOf.set(name, reach)
  }
  return reachOf.get(output)
}

/** How many frames on each side the samples of one frame depend on. */
function overlapOf ({ rate, left, right }: Reach): number {
  return Math.floor(Math.max(left, right + 1 - 1 / rate) + 1e-6)
}

/**
 * The longest local tail of a graph with one audio output, or undefined. Candidates are the inputs of its
 * Convs in graph order; in stock Piper files, `/dec/conv_pre/Conv` matches. The tail may use only the graph
 * inputs in `allowed`.
 */
export function findLocalTail (index: GraphIndex, output: string, allowed: string[]): LocalTail | undefined {
  const convs = index.model.graph.node.filter((n) => n.opType === 'Conv')
  const named = convs.find((n) => n.name === '/dec/conv_pre/Conv')
  const behind = closureOf(index, [output], new Set()).nodes
  for (const conv of named === undefined ? convs : [named, ...convs]) {
    const tensor = conv.input[0]
    const at = tensor === undefined ? undefined : index.producer.get(tensor)
    if (tensor === undefined || at === undefined || !behind.has(at)) continue
    const { nodes, inputs } = closureOf(index, [output], new Set([tensor]))
    const extra = [...inputs].filter((name) => name !== tensor)
    if (!inputs.has(tensor) || extra.some((name) => !allowed.includes(name))) continue
    const reach = reachFrom(index, nodes, tensor, output)
    if (reach === undefined || reach.rate < 8) continue
    return { tensor, hop: reach.rate, overlap: overlapOf(reach), extra }
  }
  return undefined
}

/** The tail of one unit; `run` computes the samples of frames [from, to). */
export interface TailRun {
  frames: number
  hop: number
  /** How many frames on each side the samples of one frame depend on. */
  overlap: number
  sampleRate: number
  run: (from: number, to: number) => Promise<Float32Array>
}

/** Decodes all frames in overlapping pieces; equals one complete run up to float rounding. */
export async function * decodeLocal (
  tail: TailRun, pace: PieceLengths, signal: AbortSignal
): AsyncGenerator<Float32Array> {
  const { frames, hop, overlap } = tail
  for (let a = 0; a < frames && !signal.aborted;) {
    const length = Math.max(1, Math.round(pace.next() * tail.sampleRate / hop))
    // Merge a remainder that is no longer than the overlap into this piece.
    const b = frames - a - length <= overlap ? frames : a + length
    const from = Math.max(0, a - overlap)
    const samples = await tail.run(from, Math.min(frames, b + overlap))
    yield samples.subarray((a - from) * hop, (b - from) * hop)
    a = b
  }
}
