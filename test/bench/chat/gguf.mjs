/** The same shape as a GGUF file for llama.cpp: random weights, as float32, or in 8 or 4 bits. */
import { closeSync, existsSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { SMOL } from './graph.mjs'

const TYPE = { u32: 4, i32: 5, f32: 6, string: 8, array: 9 }
const ALIGN = 32
/** Kinds of tokens: unknown, control, byte, and plain words. */
const KIND = { unknown: 2, control: 3, byte: 6, word: 1 }

const number = (write, size) => (value) => {
  const bytes = Buffer.alloc(size)
  bytes[write](value)
  return bytes
}
const u32 = number('writeUInt32LE', 4)
const u64 = (value) => number('writeBigUInt64LE', 8)(BigInt(value))
const f32 = number('writeFloatLE', 4)
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])
const WRITE = { u32, i32: u32, f32, string: text }

const entry = (key, type, value) => Array.isArray(value)
  ? Buffer.concat([text(key), u32(TYPE.array), u32(TYPE[type]), u64(value.length), ...value.map(WRITE[type])])
  : Buffer.concat([text(key), u32(TYPE[type]), WRITE[type](value)])

function tokens (size) {
  return Array.from({ length: size }, (_, id) => {
    if (id === 0) return ['<unk>', KIND.unknown]
    if (id < 3) return [['<s>', '</s>'][id - 1], KIND.control]
    if (id < 259) return [`<0x${(id - 3).toString(16).toUpperCase().padStart(2, '0')}>`, KIND.byte]
    return [`▁w${id.toString(36)}`, KIND.word]
  })
}

function facts ({ width, hidden, layers, heads, kvHeads, head, vocabulary, positions, headNorms = false }) {
  const name = headNorms ? 'qwen3' : 'llama'
  const words = tokens(vocabulary)
  const counts = {
    context_length: positions, embedding_length: width, block_count: layers, feed_forward_length: hidden,
    'attention.head_count': heads, 'attention.head_count_kv': kvHeads, 'rope.dimension_count': head,
    vocab_size: vocabulary, 'attention.key_length': head, 'attention.value_length': head
  }
  return [
    entry('general.architecture', 'string', name),
    ...Object.entries(counts).map(([key, value]) => entry(`${name}.${key}`, 'u32', value)),
    entry(`${name}.attention.layer_norm_rms_epsilon`, 'f32', 1e-5),
    entry(`${name}.rope.freq_base`, 'f32', 10_000),
    entry('tokenizer.ggml.model', 'string', 'llama'),
    entry('tokenizer.ggml.tokens', 'string', words.map(([word]) => word)),
    entry('tokenizer.ggml.scores', 'f32', words.map((_, id) => -id)),
    entry('tokenizer.ggml.token_type', 'i32', words.map(([, kind]) => kind)),
    entry('tokenizer.ggml.bos_token_id', 'u32', 1), entry('tokenizer.ggml.eos_token_id', 'u32', 2)
  ]
}

/** Names and shapes; the head is the embedding. */
function tensors ({ width, hidden, layers, heads, kvHeads, head, vocabulary, headNorms = false }) {
  const layer = (i) => Object.entries({
    attn_norm: [width], attn_q: [heads * head, width], attn_k: [kvHeads * head, width],
    attn_v: [kvHeads * head, width], attn_output: [width, heads * head], ffn_norm: [width],
    ffn_gate: [hidden, width], ffn_down: [width, hidden], ffn_up: [hidden, width],
    ...headNorms ? { attn_q_norm: [head], attn_k_norm: [head] } : {}
  }).map(([name, dims]) => [`blk.${i}.${name}.weight`, dims])
  return [['token_embd.weight', [vocabulary, width]], ['output_norm.weight', [width]],
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat()]
}

/** Random numbers from a row of them, 0 to 1. */
function * numbers () {
  for (let state = 7; ;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    yield state / 2 ** 32
  }
}

/** Kinds of weights by name: what llama.cpp calls them, and a tensor of that many values. */
const WEIGHTS = {
  f32: {
    type: 0,
    bytes: (size, next) => {
      const values = new Float32Array(Math.ceil(size / 8) * 8)
      for (let i = 0; i < size; i++) values[i] = (next() - 0.5) * 0.07
      return Buffer.from(values.buffer)
    }
  },
  // Blocks of 32 with one scale: 2^-8 * 1.1 as a float16, then 4 bits for each weight, from -8 to 7.
  q4_0: {
    type: 2,
    bytes: (size, next) => {
      const bytes = Buffer.alloc(Math.ceil(size / 32 * 18 / ALIGN) * ALIGN)
      for (let at = 0; at < size / 32 * 18; at += 18) {
        bytes.writeUInt16LE(0x1c66, at)
        for (let i = 2; i < 18; i++) bytes[at + i] = 256 * next()
      }
      return bytes
    }
  },
  // Blocks of 32 with one scale: 2^-12 * 1.13 as a float16, so that values go to 0.035.
  q8_0: {
    type: 8,
    bytes: (size, next) => {
      const bytes = Buffer.alloc(Math.ceil(size / 32 * 34 / ALIGN) * ALIGN)
      for (let at = 0; at < size / 32 * 34; at += 34) {
        bytes.writeUInt16LE(0x0c84, at)
        for (let i = 2; i < 34; i++) bytes.writeInt8(Math.round(254 * next()) - 127, at + i)
      }
      return bytes
    }
  }
}
/** Norms are float32 in every file. */
const ONES = {
  type: 0, bytes: (size) => Buffer.from(new Float32Array(Math.ceil(size / 8) * 8).fill(1).buffer)
}

/** Path of the file in `folder`; written at the first call. */
export function benchGguf (folder, weights = 'f32', shape = SMOL) {
  const file = join(folder, weights === 'f32' ? 'model.gguf' : `model-${weights}.gguf`)
  if (existsSync(file)) return file
  const row = numbers()
  const next = () => row.next().value
  const sizeOf = (dims) => dims.reduce((a, b) => a * b, 1)
  const list = tensors(shape).map(([name, dims]) =>
    ({ name, dims, kind: dims.length > 1 ? WEIGHTS[weights] : ONES }))
  let offset = 0
  const infos = list.map(({ name, dims, kind }) => {
    const info = Buffer.concat([
      text(name), u32(dims.length), ...[...dims].reverse().map(u64), u32(kind.type), u64(offset)])
    offset += kind.bytes(sizeOf(dims), () => 0).length
    return info
  })
  const entries = facts(shape)
  const head = Buffer.concat([
    Buffer.from('GGUF'), u32(3), u64(list.length), u64(entries.length), ...entries, ...infos])
  const out = openSync(`${file}.part`, 'w')
  writeSync(out, Buffer.concat([head, Buffer.alloc(-head.length & (ALIGN - 1))]))
  for (const { dims, kind } of list) {
    const raw = kind.bytes(sizeOf(dims), next)
    for (let done = 0; done < raw.length;) done += writeSync(out, raw, done)
  }
  closeSync(out)
  renameSync(`${file}.part`, file)
  return file
}
