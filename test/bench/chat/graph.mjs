/** A Llama-shaped decoder with random weights as an ONNX file, its weights beside it (external data). */
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import protobuf from 'protobufjs/light.js'

const tagged = (number, wire) => protobuf.Writer.create().uint32(number << 3 | wire)
const bytesField = (number, value) =>
  tagged(number, 2)[typeof value === 'string' ? 'string' : 'bytes'](value).finish()
const varintField = (number, value) => tagged(number, 0).int64(value).finish()

// Field numbers and types of onnx.proto.
const TYPES = { float32: 1, uint8: 2, int32: 6, int64: 7, bool: 9 }
const WIDTH = { float32: 4, int64: 8 }
const ALIGN = 4096

/** SmolLM-135M's shape: 134.5 million parameters. */
export const SMOL = {
  width: 576, hidden: 1536, layers: 30, heads: 9, kvHeads: 3, head: 64, vocabulary: 49152, positions: 8192
}
/** Qwen3-0.6B's shape: 596 million parameters; queries and keys are normed per head. */
export const QWEN = {
  width: 1024, hidden: 3072, layers: 28, heads: 16, kvHeads: 8, head: 128, vocabulary: 151936,
  positions: 8192, headNorms: true
}
/** Weights that share a scale, in the files with 4 bits per weight. */
const BLOCK = 32

function random (seed) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

function attribute (name, value) {
  if (typeof value === 'object' && 'float' in value) {
    const raw = Buffer.alloc(5)
    raw[0] = 2 * 8 + 5
    raw.writeFloatLE(value.float, 1)
    return Buffer.concat([bytesField(1, name), raw, varintField(20, 1)])
  }
  return Array.isArray(value)
    ? Buffer.concat([bytesField(1, name), ...value.map((n) => varintField(8, n)), varintField(20, 7)])
    : Buffer.concat([bytesField(1, name), varintField(3, value), varintField(20, 2)])
}

/** Collects a graph. Methods answer the name of the tensor they made; weights go to the file at once. */
class Graph {
  /** `quantized`: products with weights of 4 bits, as the public files named q4 have them. */
  constructor (file, quantized) {
    this.file = file
    this.quantized = quantized
    this.data = openSync(`${file}_data`, 'w')
    this.at = 0
    this.count = 0
    this.parts = []
    this.weights = []
    this.known = new Map()
    this.next = random(7)
    this.parameters = 0
  }

  /** A node; the attribute `domain` is its domain, `outputs` names its outputs. */
  op (type, inputs, { domain, outputs = [`t${this.count++}`], ...attributes } = {}) {
    this.parts.push(bytesField(1, Buffer.concat([
      ...inputs.map((name) => bytesField(1, name)), ...outputs.map((name) => bytesField(2, name)),
      bytesField(4, type), ...Object.entries(attributes).map(([k, v]) => bytesField(5, attribute(k, v))),
      ...domain === undefined ? [] : [bytesField(7, domain)]
    ])))
    return outputs[0]
  }

  port (field, name, type, dims) {
    const shape = Buffer.concat(dims.map((dim) =>
      bytesField(1, typeof dim === 'number' ? varintField(1, dim) : bytesField(2, dim))))
    const tensor = Buffer.concat([varintField(1, TYPES[type]), bytesField(2, shape)])
    this.parts.push(bytesField(field, Buffer.concat([bytesField(1, name),
      bytesField(2, bytesField(1, tensor))])))
    return name
  }

  input (...port) { return this.port(11, ...port) }
  output (...port) { return this.port(12, ...port) }

  /** Uniform random weights of deviation 0.02. */
  weight (dims) {
    const size = dims.reduce((a, b) => a * b, 1)
    const values = new Float32Array(size)
    for (let i = 0; i < size; i++) values[i] = (this.next() - 0.5) * 0.04 * Math.sqrt(3)
    this.parameters += size
    return this.tensor('float32', dims, values)
  }

  /** Random weights of 4 bits, symmetric around 8, with one scale for each block: deviation 0.02. */
  weight4 (inputs, outputs) {
    const blocks = outputs * inputs / BLOCK
    const words = new Uint32Array(blocks * BLOCK / 8)
    // The high bits of the generator are the random ones.
    for (let i = 0; i < words.length; i++) words[i] = this.next() * 2 ** 32
    const scales = Float32Array.from({ length: blocks }, () => 0.0033 + 0.002 * this.next())
    this.parameters += inputs * outputs
    return [this.tensor('uint8', [outputs, inputs / BLOCK, BLOCK / 2], words),
      this.tensor('float32', [blocks], scales)]
  }

  /** The product of `x` with random weights `[inputs, outputs]`. */
  product (x, inputs, outputs, options = {}) {
    if (!this.quantized) return this.op('MatMul', [x, this.weight([inputs, outputs])], options)
    return this.op('MatMulNBits', [x, ...this.weight4(inputs, outputs)],
      { domain: 'com.microsoft', K: inputs, N: outputs, bits: 4, block_size: BLOCK, ...options })
  }

  ones (size) {
    this.parameters += size
    return this.tensor('float32', [size], new Float32Array(size).fill(1))
  }

  /** Small constants lie in the graph, each once. */
  constant (type, dims, values) {
    const key = `${type} ${dims} ${values}`
    if (!this.known.has(key)) this.known.set(key, this.tensor(type, dims, values, true))
    return this.known.get(key)
  }

  ints (...values) { return this.constant('int64', [values.length], BigInt64Array.from(values, BigInt)) }
  int (value) { return this.constant('int64', [], BigInt64Array.of(BigInt(value))) }
  float (value) { return this.constant('float32', [], Float32Array.of(value)) }

  tensor (type, dims, values, inside = false) {
    const name = `w${this.count++}`
    const raw = Buffer.from(values.buffer, values.byteOffset, values.byteLength)
    const entry = (key, value) =>
      bytesField(13, Buffer.concat([bytesField(1, key), bytesField(2, `${value}`)]))
    const where = inside
      ? [bytesField(9, raw)]
      : [entry('location', `${basename(this.file)}_data`), entry('offset', this.at),
          entry('length', raw.length), varintField(14, 1)]
    this.weights.push(bytesField(5, Buffer.concat([
      ...dims.map((dim) => varintField(1, dim)), varintField(2, TYPES[type]), bytesField(8, name), ...where
    ])))
    if (!inside) this.append(raw)
    return name
  }

  append (raw) {
    for (let done = 0; done < raw.length;) {
      done += writeSync(this.data, raw, done, raw.length - done, this.at + done)
    }
    this.at = Math.ceil((this.at + raw.length) / ALIGN) * ALIGN
  }

  end () {
    closeSync(this.data)
    const opsets = [['', 14], ['com.microsoft', 1]]
    writeFileSync(this.file, Buffer.concat([
      varintField(1, 8),
      bytesField(7, Buffer.concat([...this.parts, bytesField(2, 'llama'), ...this.weights])),
      ...opsets.map(([domain, version]) =>
        bytesField(8, Buffer.concat([bytesField(1, domain), varintField(2, version)])))
    ]))
  }
}

const norm = (g, x, shape) => g.op('SimplifiedLayerNormalization', [x, g.ones(shape.width)],
  { axis: 2, epsilon: { float: 1e-5 } })

function addedThenNormed (g, x, more, shape) {
  const sum = g.op('Add', [x, more])
  return [norm(g, sum, shape), sum]
}

/** The same in one operator, as the public files named q4 have it. */
function addedAndNormed (g, x, more, shape) {
  const outputs = [`t${g.count++}`, '', '', `t${g.count++}`]
  g.op('SkipSimplifiedLayerNormalization', [x, more, g.ones(shape.width)],
    { domain: 'com.microsoft', epsilon: { float: 1e-5 }, outputs })
  return [outputs[0], outputs[3]]
}

/** Cosines and sines of every position, [positions, head / 2]. */
function rotations (g, { head, positions }) {
  const half = head / 2
  const table = (wave) => g.tensor('float32', [positions, half], Float32Array.from(
    { length: positions * half }, (_, i) => wave(Math.floor(i / half) / 10_000 ** (2 * (i % half) / head))))
  return [table(Math.cos), table(Math.sin)]
}

/** What the attention of the plain layout needs besides: mask and rotations of the tokens. */
function plainParts (g, ids, mask, shape) {
  const positions = g.input('position_ids', 'int64', ['batch_size', 'sequence_length'])
  const total = g.op('Gather', [g.op('Shape', [mask]), g.int(1)])
  const added = g.op('Gather', [g.op('Shape', [ids]), g.int(1)])
  const past = g.op('Sub', [total, added])
  const keys = g.op('Unsqueeze', [g.op('Range', [g.int(0), total, g.int(1)]), g.ints(0, 1, 2)])
  const queries = g.op('Unsqueeze', [g.op('Range', [past, total, g.int(1)]), g.ints(0, 1, 3)])
  const given = g.op('Cast', [g.op('Unsqueeze', [mask, g.ints(1, 2)])], { to: TYPES.bool })
  const seen = g.op('And', [g.op('LessOrEqual', [keys, queries]), given])
  const hidden = g.op('Where', [seen, g.float(0), g.float(-3.4e38)])
  const [cos, sin] = rotations(g, shape).map((table) => {
    const half = g.op('Gather', [table, positions])
    return g.op('Unsqueeze', [g.op('Concat', [half, half], { axis: 2 }), g.ints(1)])
  })
  return { hidden, cos, sin }
}

function rotated (g, x, { cos, sin }, { head }) {
  const part = (from, to) => g.op('Slice', [x, g.ints(from), g.ints(to), g.ints(-1)])
  const turned = g.op('Concat', [g.op('Neg', [part(head / 2, head)]), part(0, head / 2)], { axis: 3 })
  return g.op('Add', [g.op('Mul', [x, cos]), g.op('Mul', [turned, sin])])
}

/** Attention of plain operators, as Optimum exports it: the cache is concatenated. */
function plainAttention (g, x, layer, shape, parts) {
  const { width, heads, kvHeads, head } = shape
  const split = (count) => {
    const wide = g.product(x, width, count * head)
    return g.op('Transpose', [g.op('Reshape', [wide, g.ints(0, 0, count, head)])], { perm: [0, 2, 1, 3] })
  }
  const q = rotated(g, split(heads), parts, shape)
  const k = rotated(g, split(kvHeads), parts, shape)
  const v = split(kvHeads)
  const dims = (tokens) => ['batch_size', kvHeads, tokens, head]
  const [keys, values] = [['key', k], ['value', v]].map(([what, fresh]) => {
    const past = g.input(`past_key_values.${layer}.${what}`, 'float32', dims('past_sequence_length'))
    g.output(`present.${layer}.${what}`, 'float32', dims('total_sequence_length'))
    return g.op('Unsqueeze', [
      g.op('Concat', [past, fresh], { axis: 2, outputs: [`present.${layer}.${what}`] }), g.ints(2)])
  })
  const grouped = g.op('Reshape', [g.op('Mul', [q, g.float(head ** -0.5)]),
    g.ints(0, kvHeads, heads / kvHeads, -1, head)])
  const scores = g.op('MatMul', [grouped, g.op('Transpose', [keys], { perm: [0, 1, 2, 4, 3] })])
  const masked = g.op('Add', [scores, g.op('Unsqueeze', [parts.hidden, g.ints(2)])])
  const mixed = g.op('MatMul', [g.op('Softmax', [masked], { axis: 4 }), values])
  const joined = g.op('Transpose', [g.op('Reshape', [mixed, g.ints(0, heads, -1, head)])],
    { perm: [0, 2, 1, 3] })
  return g.op('Reshape', [joined, g.ints(0, 0, heads * head)])
}

function gqaParts (g, mask, shape) {
  const lengths = g.op('Sub', [g.op('ReduceSum', [mask, g.ints(1)], { keepdims: 0 }), g.ints(1)])
  const total = g.op('Gather', [g.op('Shape', [mask]), g.int(1)])
  const whole = [lengths, total].map((name) => g.op('Cast', [name], { to: TYPES.int32 }))
  return [...whole, ...rotations(g, shape)]
}

/** Queries, keys and values: one product, or one for each where each head has a norm. */
function gqaInputs (g, x, { width, heads, kvHeads, head, headNorms = false }) {
  if (!headNorms) return [g.product(x, width, (heads + 2 * kvHeads) * head), '', '']
  const normed = (count) => {
    const each = g.op('Reshape', [g.product(x, width, count * head), g.ints(0, -1, count, head)])
    const same = g.op('SimplifiedLayerNormalization', [each, g.ones(head)],
      { axis: 3, epsilon: { float: 1e-5 } })
    return g.op('Reshape', [same, g.ints(0, -1, count * head)])
  }
  return [normed(heads), normed(kvHeads), g.product(x, width, kvHeads * head)]
}

/** Attention of onnxruntime-genai's builder: one operator. */
function gqaAttention (g, x, layer, shape, parts) {
  const { heads, kvHeads, head } = shape
  const inputs = gqaInputs(g, x, shape)
  const dims = (tokens) => ['batch_size', kvHeads, tokens, head]
  const names = ['key', 'value'].map((what) => {
    g.output(`present.${layer}.${what}`, 'float32', dims('total_sequence_length'))
    return g.input(`past_key_values.${layer}.${what}`, 'float32', dims('past_sequence_length'))
  })
  return g.op('GroupQueryAttention', [...inputs, ...names, ...parts], {
    domain: 'com.microsoft', num_heads: heads, kv_num_heads: kvHeads, do_rotary: 1,
    outputs: [`a${layer}`, `present.${layer}.key`, `present.${layer}.value`]
  })
}

function feedForward (g, x, { width, hidden }) {
  const gate = g.product(x, width, hidden)
  const up = g.product(x, width, hidden)
  const both = g.op('Mul', [g.op('Mul', [gate, g.op('Sigmoid', [gate])]), up])
  return g.product(both, hidden, width)
}

/**
 * Writes `file` and `<file>_data`; answers the number of parameters. `layout`: `optimum` (plain operators,
 * position_ids), `genai` (GroupQueryAttention) or `q4` (the same with 4 bits per weight in products).
 */
export function writeDecoder (file, layout = 'optimum', shape = SMOL) {
  const g = new Graph(join(dirname(file), basename(file)), layout === 'q4')
  const ids = g.input('input_ids', 'int64', ['batch_size', 'sequence_length'])
  const mask = g.input('attention_mask', 'int64', ['batch_size', 'total_sequence_length'])
  const embedding = g.weight([shape.vocabulary, shape.width])
  const [parts, attention] = layout !== 'optimum'
    ? [gqaParts(g, mask, shape), gqaAttention]
    : [plainParts(g, ids, mask, shape), plainAttention]
  let x = g.op('Gather', [embedding, ids])
  let normed = norm(g, x, shape)
  const add = (more) => {
    [normed, x] = layout === 'q4' ? addedAndNormed(g, x, more, shape) : addedThenNormed(g, x, more, shape)
  }
  for (let layer = 0; layer < shape.layers; layer++) {
    const mixed = attention(g, normed, layer, shape, parts)
    add(g.product(mixed, shape.heads * shape.head, shape.width))
    add(feedForward(g, normed, shape))
  }
  const outputs = ['logits']
  if (g.quantized) g.product(normed, shape.width, shape.vocabulary, { outputs })
  else g.op('MatMul', [normed, g.op('Transpose', [embedding], { perm: [1, 0] })], { outputs })
  g.output('logits', 'float32', ['batch_size', 'sequence_length', shape.vocabulary])
  g.end()
  return g.parameters
}
