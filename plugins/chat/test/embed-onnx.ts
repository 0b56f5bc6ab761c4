/** Tiny decoders with random weights and the signatures of real ones, written as ONNX files. */
import {
  ATTRIBUTE, ELEMENT, encodeMessage, encodeModel, tensorInfo, type OnnxNode
} from '../../onnx/engine.js'

type Element = keyof typeof ELEMENT
/** Types of weights. */
const STORED = { ...ELEMENT, uint8: 2 } as const

/** Shape and batching of a decoder. */
export interface DecoderShape {
  layers?: number
  /** `gqa` is the contrib operator of onnxruntime-genai, without position_ids. */
  attention?: 'plain' | 'gqa'
  /** Keys and values in one tensor, and 32-bit ids, as GPT-2 exports have them. */
  combined?: boolean
  /** Half-precision cache and logits. */
  half?: boolean
  /** Quantised to eight bits in each call, as quantize_dynamic does it. */
  dynamic?: boolean
  /** num_logits_to_keep */
  keep?: boolean
  /** A state of one size besides the cache. */
  state?: boolean
  /** Type of input_ids; for graphs that nobody can feed. */
  ids?: Element
  /** An input that nothing explains. */
  odd?: boolean
  /** Leaves out the output that carries the first key on. */
  lost?: boolean
  /** Tokens it knows, and how many it takes in a row. */
  vocabulary?: number
  positions?: number
  /** Logits become NaN after this many tokens. */
  nanAfter?: number
}

export const VOCABULARY = 64
const WIDTH = 32
const HEADS = 2
const HEAD = 16
const POSITIONS = 128

type Attribute = number | string | readonly number[] | { float: number }

function random (seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = Math.imul(state ^ (state >>> 15), state | 1) + 0x6d2b79f5 >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

function attribute (name: string, value: Attribute): Uint8Array {
  const fields = typeof value === 'number'
    ? { i: value, type: ATTRIBUTE.int }
    : typeof value === 'string'
      ? { s: Buffer.from(value), type: ATTRIBUTE.string }
      : 'float' in value ? { f: value.float, type: ATTRIBUTE.float } : { ints: value, type: ATTRIBUTE.ints }
  return encodeMessage('AttributeProto', { name, ...fields })
}

/** Collects a graph; methods answer the name of the tensor they made. */
class Graph {
  private readonly nodes: OnnxNode[] = []
  private readonly weights: Uint8Array[] = []
  private readonly ports = { 11: [] as Uint8Array[], 12: [] as Uint8Array[] }
  private count = 0
  private readonly next = random(7)

  port (field: 11 | 12, name: string, element: Element, dims: ReadonlyArray<number | string>): string {
    this.ports[field].push(tensorInfo(name, ELEMENT[element], [...dims]))
    return name
  }

  op (type: string, inputs: readonly string[], attributes: Record<string, Attribute> = {}, outputs =
    [`t${this.count++}`]): string {
    const domain = type === 'GroupQueryAttention' ? 'com.microsoft' : ''
    const encoded = Object.entries(attributes).map(([name, value]) => attribute(name, value))
    this.nodes.push({
      opType: type, input: [...inputs], output: outputs, name: '', domain, attribute: encoded
    })
    return outputs[0] as string
  }

  weight (dims: readonly number[], values?: Float32Array): string {
    const size = dims.reduce((a, b) => a * b, 1)
    const scale = 2 / Math.sqrt(dims[0] as number)
    return this.constant('float32', dims, values ??
      Float32Array.from({ length: size }, () => (this.next() - 0.5) * scale))
  }

  ints (values: readonly number[], dims: readonly number[] = [values.length]): string {
    return this.constant('int64', dims, BigInt64Array.from(values, BigInt))
  }

  /** x times random weights; with `dynamic` both in eight bits, with one scale for all of x. */
  linear (x: string, dims: readonly [number, number], dynamic = false): string {
    if (!dynamic) return this.op('MatMul', [x, this.weight(dims)])
    const [quantised, scale, zero] = ['q', 'scale', 'zero'].map((part) => `${part}${this.count++}`)
    this.op('DynamicQuantizeLinear', [x], {}, [quantised, scale, zero] as string[])
    const weights = Uint8Array.from({ length: dims[0] * dims[1] }, () => this.next() * 256)
    const product = this.op('MatMulInteger', [quantised as string, this.constant('uint8', dims, weights),
      zero as string, this.constant('uint8', [], Uint8Array.of(128))])
    const scales = this.op('Mul', [scale as string, this.float(2 / Math.sqrt(dims[0]) / 256)])
    return this.op('Mul', [this.op('Cast', [product], { to: ELEMENT.float32 }), scales])
  }

  float (value: number): string { return this.constant('float32', [], Float32Array.of(value)) }

  private constant (element: keyof typeof STORED, dims: readonly number[],
    values: Float32Array | BigInt64Array | Uint8Array): string {
    const name = `w${this.count++}`
    const rawData = Buffer.from(values.buffer, values.byteOffset, values.byteLength)
    this.weights.push(encodeMessage('TensorProto', { dims, dataType: STORED[element], name, rawData }))
    return name
  }

  file (): Buffer {
    const opsets = [['', 14], ['com.microsoft', 1]] as const
    return Buffer.from(encodeModel({
      irVersion: 8,
      producerName: '',
      metadataProps: [],
      opsetImport: opsets.map(([domain, version]) =>
        encodeMessage('OperatorSetIdProto', { domain, version })),
      graph: {
        name: 'tiny', node: this.nodes, initializer: this.weights,
        input: this.ports[11], output: this.ports[12], valueInfo: []
      }
    }))
  }
}

/** A decoder under way: names of tensors that several parts use. */
interface Parts { graph: Graph, shape: DecoderShape, real: Element, mask: string }

const cast = (graph: Graph, tensor: string, element: Element): string =>
  graph.op('Cast', [tensor], { to: ELEMENT[element] })

/** Zero where a token may look, very low elsewhere: [rows, 1, tokens, all]. */
function maskOf (graph: Graph, ids: string, mask: string): string {
  const axis = (...axes: number[]): string => graph.ints(axes)
  const [zero, one] = [graph.ints([0], []), graph.ints([1], [])]
  const all = graph.op('Gather', [graph.op('Shape', [mask]), one])
  const tokens = graph.op('Gather', [graph.op('Shape', [ids]), one])
  const past = graph.op('Sub', [all, tokens])
  const keys = graph.op('Unsqueeze', [graph.op('Range', [zero, all, one]), axis(0, 1, 2)])
  const queries = graph.op('Unsqueeze', [graph.op('Range', [past, all, one]), axis(0, 1, 3)])
  const given = graph.op('Cast', [graph.op('Unsqueeze', [mask, axis(1, 2)])], { to: 9 })
  const seen = graph.op('And', [graph.op('LessOrEqual', [keys, queries]), given])
  return graph.op('Where', [seen, graph.float(0), graph.float(-1e9)])
}

function plainAttention ({ graph, shape, real, mask }: Parts, layer: number, x: string): string {
  const heads = (): string => {
    const wide = graph.op('MatMul', [x, graph.weight([WIDTH, HEADS * HEAD])])
    const split = graph.op('Reshape', [wide, graph.ints([0, 0, HEADS, HEAD])])
    return graph.op('Transpose', [split], { perm: [0, 2, 1, 3] })
  }
  const [q, k, v] = [heads(), heads(), heads()] as const
  let keys
  let values
  if (shape.combined === true) {
    const past = graph.port(11, `past_${layer}`, real, [2, 'batch_size', HEADS, 'past', HEAD])
    const halves = [0, 1].map((i) => graph.op('Gather', [past, graph.ints([i], [])], { axis: 0 })) as [string,
      string]
    keys = graph.op('Concat', [halves[0], k], { axis: 2 })
    values = graph.op('Concat', [halves[1], v], { axis: 2 })
    const both = [keys, values].map((tensor) => graph.op('Unsqueeze', [tensor, graph.ints([0])]))
    graph.op('Concat', both, { axis: 0 }, [`present_${layer}`])
    graph.port(12, `present_${layer}`, real, [2, 'batch_size', HEADS, 'all', HEAD])
  } else {
    const joined = (what: string, fresh: string): string => {
      const past = graph.port(11, `past_key_values.${layer}.${what}`, real,
        ['batch_size', HEADS, 'past', HEAD])
      const present = `present.${layer}.${what}`
      const all = graph.op('Concat', [past, real === 'float32' ? fresh : cast(graph, fresh, real)],
        { axis: 2 }, [present])
      const lost = shape.lost === true && layer === 0 && what === 'key'
      if (!lost) graph.port(12, present, real, ['batch_size', HEADS, 'all', HEAD])
      return real === 'float32' ? all : cast(graph, all, 'float32')
    }
    keys = joined('key', k)
    values = joined('value', v)
  }
  const scores = graph.op('MatMul', [q, graph.op('Transpose', [keys], { perm: [0, 1, 3, 2] })])
  const scaled = graph.op('Add', [graph.op('Mul', [scores, graph.float(HEAD ** -0.5)]), mask])
  const mixed = graph.op('MatMul', [graph.op('Softmax', [scaled], { axis: 3 }), values])
  return graph.op('Reshape', [graph.op('Transpose', [mixed], { perm: [0, 2, 1, 3] }),
    graph.ints([0, 0, HEADS * HEAD])])
}

/** Lengths in the mask, and tables of rotations, as GroupQueryAttention takes them. */
function gqaParts (graph: Graph, mask: string, positions = POSITIONS): string[] {
  const one = graph.ints([1])
  const lengths = graph.op('Sub', [graph.op('ReduceSum', [mask, one], { keepdims: 0 }), one])
  const total = graph.op('Gather', [graph.op('Shape', [mask]), graph.ints([1], [])])
  const table = (wave: (angle: number) => number): string => graph.weight([positions, HEAD / 2],
    Float32Array.from({ length: positions * HEAD / 2 }, (_, i) =>
      wave(Math.floor(i / (HEAD / 2)) / 100 ** (i % (HEAD / 2) / (HEAD / 2)))))
  return [cast(graph, lengths, 'int32'), cast(graph, total, 'int32'), table(Math.cos), table(Math.sin)]
}

function gqaAttention ({ graph, real }: Parts, layer: number, x: string, extra: readonly string[]): string {
  const [lengths, total, cos, sin] = extra as [string, string, string, string]
  const qkv = graph.op('MatMul', [x, graph.weight([WIDTH, 3 * HEADS * HEAD])])
  const past = ['key', 'value'].map((what) =>
    graph.port(11, `past_key_values.${layer}.${what}`, real, ['batch_size', HEADS, 'past', HEAD]))
  const present = ['key', 'value'].map((what) =>
    graph.port(12, `present.${layer}.${what}`, real, ['batch_size', HEADS, 'all', HEAD]))
  return graph.op('GroupQueryAttention', [qkv, '', '', ...past, lengths, total, cos, sin],
    { num_heads: HEADS, kv_num_heads: HEADS, do_rotary: 1 }, [`attended${layer}`, ...present])
}

/** Adds what all tokens before amount to, kept as a state of one size. */
function running (graph: Graph, x: string): string {
  const past = graph.port(11, 'past_state.0', 'float32', ['batch_size', 1, WIDTH])
  const sums = graph.op('Add', [graph.op('CumSum',
    [graph.op('Mul', [x, graph.float(0.05)]), graph.ints([1], [])]), past])
  graph.op('Slice', [sums, graph.ints([-1]), graph.ints([1000]), graph.ints([1])], {}, ['present_state.0'])
  graph.port(12, 'present_state.0', 'float32', ['batch_size', 1, WIDTH])
  return graph.op('Add', [x, sums])
}

function head ({ graph, shape, real }: Parts, x: string, mask: string): void {
  const { vocabulary = VOCABULARY } = shape
  let logits = graph.linear(x, [WIDTH, vocabulary], shape.dynamic)
  if (shape.nanAfter !== undefined) {
    const tokens = graph.op('ReduceSum', [cast(graph, mask, 'float32'), graph.ints([1])])
    const left = graph.op('Sub', [graph.float(shape.nanAfter), tokens])
    const zero = graph.op('Mul', [graph.op('Sqrt', [left]), graph.float(0)])
    logits = graph.op('Add', [logits, graph.op('Unsqueeze', [zero, graph.ints([1])])])
  }
  const wanted = shape.keep === true ? lastTokens(graph, logits) : logits
  graph.op('Cast', [wanted], { to: ELEMENT[real] }, ['logits'])
  graph.port(12, 'logits', real, ['batch_size', 's', vocabulary])
}

function lastTokens (graph: Graph, logits: string): string {
  const keep = graph.port(11, 'num_logits_to_keep', 'int64', [])
  const start = graph.op('Unsqueeze', [graph.op('Neg', [keep]), graph.ints([0])])
  return graph.op('Slice', [logits, start, graph.ints([2 ** 40]), graph.ints([1])])
}

/** The bytes of a decoder. */
export function makeDecoder (shape: DecoderShape = {}): Buffer {
  const graph = new Graph()
  const gqa = shape.attention === 'gqa'
  const whole: Element = shape.combined === true ? 'int32' : 'int64'
  const real: Element = shape.half === true ? 'float16' : 'float32'
  const given = graph.port(11, 'input_ids', shape.ids ?? whole, ['batch_size', 's'])
  const givenMask = graph.port(11, 'attention_mask', whole, ['batch_size', 'all'])
  const ids = cast(graph, given, 'int64')
  const mask = cast(graph, givenMask, 'int64')
  let x = graph.op('Gather', [graph.weight([shape.vocabulary ?? VOCABULARY, WIDTH]), ids])
  if (!gqa) {
    const positions = cast(graph, graph.port(11, 'position_ids', whole, ['batch_size', 's']), 'int64')
    const table = graph.weight([shape.positions ?? POSITIONS, WIDTH])
    x = graph.op('Add', [x, graph.op('Gather', [table, positions])])
  }
  if (shape.odd === true) x = graph.op('Add', [x, graph.port(11, 'pixel_values', 'float32', [1])])
  if (shape.state === true) x = running(graph, x)
  const parts: Parts = { graph, shape, real, mask: gqa ? '' : maskOf(graph, ids, mask) }
  const extra = gqa ? gqaParts(graph, mask, shape.positions) : []
  for (let layer = 0; layer < (shape.layers ?? 2); layer++) {
    const mixed = gqa ? gqaAttention(parts, layer, x, extra) : plainAttention(parts, layer, x)
    x = graph.op('Add', [x, graph.op('MatMul', [mixed, graph.weight([HEADS * HEAD, WIDTH])])])
    const wide = graph.op('Relu', [graph.linear(x, [WIDTH, 2 * WIDTH], shape.dynamic)])
    x = graph.op('Add', [x, graph.linear(wide, [2 * WIDTH, WIDTH], shape.dynamic)])
  }
  head(parts, x, mask)
  return graph.file()
}

/** The bytes of an encoder whose vectors depend on all tokens that the mask lets through. */
export function makeEncoder (): Buffer {
  const graph = new Graph()
  const ids = graph.port(11, 'input_ids', 'int64', ['batch_size', 's'])
  const mask = cast(graph, graph.port(11, 'attention_mask', 'int64', ['batch_size', 's']), 'float32')
  const types = graph.port(11, 'token_type_ids', 'int64', ['batch_size', 's'])
  const words = graph.op('Gather', [graph.weight([VOCABULARY, WIDTH]), ids])
  const x = graph.op('Add', [words, graph.op('Gather', [graph.weight([2, WIDTH]), types])])
  const weights = graph.op('Unsqueeze', [mask, graph.ints([2])])
  const sum = graph.op('ReduceSum', [graph.op('Mul', [x, weights]), graph.ints([1])])
  graph.op('Add', [x, graph.op('Div', [sum, graph.op('ReduceSum', [weights, graph.ints([1])])])], {},
    ['last_hidden_state'])
  graph.port(12, 'last_hidden_state', 'float32', ['batch_size', 's', WIDTH])
  return graph.file()
}
