/** Writes a GGUF file with random Q8_0 weights. */
import { closeSync, existsSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const SMOL = {
  width: 576, hidden: 1536, layers: 30, heads: 9, kvHeads: 3, head: 64, vocabulary: 49152, positions: 8192
}
const TYPE = { u32: 4, i32: 5, f32: 6, string: 8, array: 9 }
const ALIGN = 32
/** GGUF token types. */
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

function facts ({ width, hidden, layers, heads, kvHeads, head, vocabulary, positions }) {
  const name = 'llama'
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

/** Tensor names and shapes; the output head shares the embedding's weights. */
function tensors ({ width, hidden, layers, heads, kvHeads, head, vocabulary }) {
  const layer = (i) => Object.entries({
    attn_norm: [width], attn_q: [heads * head, width], attn_k: [kvHeads * head, width],
    attn_v: [kvHeads * head, width], attn_output: [width, heads * head], ffn_norm: [width],
    ffn_gate: [hidden, width], ffn_down: [width, hidden], ffn_up: [hidden, width]
  }).map(([name, dims]) => [`blk.${i}.${name}.weight`, dims])
  return [['token_embd.weight', [vocabulary, width]], ['output_norm.weight', [width]],
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat()]
}

/** Pseudo-random numbers from 0 to 1, from a fixed seed. */
function * numbers () {
  for (let state = 7; ;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    yield state / 2 ** 32
  }
}

/** Q8_0 blocks: 32 values share one scale, 2^-12 * 1.13 as a float16, so values reach 0.035. */
const WEIGHTS = {
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
/** Norm weights stay float32 in quantised GGUF files. */
const ONES = {
  type: 0, bytes: (size) => Buffer.from(new Float32Array(Math.ceil(size / 8) * 8).fill(1).buffer)
}

/** Path of the model file in `folder`; the first call writes the file. */
export function benchGguf (folder) {
  const file = join(folder, 'smol-135m-q8_0.gguf')
  if (existsSync(file)) return file
  const row = numbers()
  const next = () => row.next().value
  const sizeOf = (dims) => dims.reduce((a, b) => a * b, 1)
  const list = tensors(SMOL).map(([name, dims]) =>
    ({ name, dims, kind: dims.length > 1 ? WEIGHTS : ONES }))
  let offset = 0
  const infos = list.map(({ name, dims, kind }) => {
    const info = Buffer.concat([
      text(name), u32(dims.length), ...[...dims].reverse().map(u64), u32(kind.type), u64(offset)])
    offset += kind.bytes(sizeOf(dims), () => 0).length
    return info
  })
  const entries = facts(SMOL)
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
