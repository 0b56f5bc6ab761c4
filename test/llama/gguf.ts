/** GGUF files of small models with the real vocabularies from llama.cpp's source. */
import { readFileSync, writeFileSync } from 'node:fs'

const ALIGN = 32
/** Sizes in bytes of GGUF's scalar types, indexed by type number. */
const BYTES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]
const [U32, F32, BOOL, STRING, LIST] = [4, 6, 7, 8, 9]
/** GGUF token type for tokens that are matched literally. */
const USER_DEFINED = 4

export type Value = number | boolean | string | { float: number } | { floats: number[] }
/** A tensor's name and dimensions, the row length last. */
export type Tensor = [name: string, sizes: number[]]

const u32 = (value: number): Buffer => { const b = Buffer.alloc(4); b.writeUInt32LE(value); return b }
const u64 = (value: number): Buffer => {
  const b = Buffer.alloc(8)
  b.writeBigUInt64LE(BigInt(value))
  return b
}
const f32 = (value: number): Buffer => { const b = Buffer.alloc(4); b.writeFloatLE(value); return b }
const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])

function entry (key: string, value: Value): Buffer {
  const coded = typeof value === 'string'
    ? [u32(STRING), text(value)]
    : typeof value === 'boolean'
      ? [u32(BOOL), Buffer.of(Number(value))]
      : typeof value === 'number'
        ? [u32(U32), u32(value)]
        : 'float' in value
          ? [u32(F32), f32(value.float)]
          : [u32(LIST), u32(F32), u64(value.floats.length), ...value.floats.map(f32)]
  return Buffer.concat([text(key), ...coded])
}

/**
 * Metadata entries of a tokenizer, how many were copied (`kept`), the number of tokens (`size`), the ids of
 * the added tokens, and the id of the end token (`last`).
 */
export interface Vocabulary { entries: Buffer[], kept: number, size: number, ids: number[], last: number }

/** Reads a file's tokenizer entries, except the chat template. Added tokens replace unused tokens. */
export function vocabularyOf (path: string, added: readonly string[]): Vocabulary {
  const bytes = readFileSync(path)
  const number = (at: number): number => Number(bytes.readBigUInt64LE(at))
  const end = (at: number, type: number): number => {
    if (type === STRING) return at + 8 + number(at)
    if (type !== LIST) return at + BYTES[type]!
    const [inner, count] = [bytes.readUInt32LE(at), number(at + 4)]
    let next = at + 12
    for (let i = 0; i < count; i++) next = end(next, inner)
    return next
  }
  const entries: Buffer[] = []
  const ids: number[] = []
  let [kept, size, last] = [0, 0, 0]
  let at = 24
  for (let i = number(16); i > 0; i--) {
    const from = at
    at = end(at, STRING)
    const key = bytes.toString('utf8', from + 8, at)
    const type = bytes.readUInt32LE(at)
    const list = at + 16
    if (key === 'tokenizer.ggml.eos_token_id') last = bytes.readUInt32LE(at + 4)
    const count = type === LIST ? number(at + 8) : 0
    at = end(at + 4, type)
    if (!/^tokenizer\.(?!chat_template)/.test(key)) continue
    if (key === 'tokenizer.ggml.tokens') {
      size = count
      const tokens = texts(bytes.subarray(list, at))
      for (const token of added) {
        const id = tokens.findIndex((each) => each.startsWith('[PAD'))
        tokens[id] = token
        ids.push(id)
      }
      entries.push(bytes.subarray(from, list), Buffer.concat(tokens.map(text)))
    } else {
      const own = Buffer.from(bytes.subarray(from, at))
      if (key === 'tokenizer.ggml.token_type') {
        for (const id of ids) own.writeInt32LE(USER_DEFINED, list - from + 4 * id)
      }
      entries.push(own)
    }
    kept++
  }
  return { entries, kept, size, ids, last }
}

/** The strings of a GGUF array. */
function texts (bytes: Buffer): string[] {
  const found: string[] = []
  for (let at = 0; at < bytes.length;) {
    const next = at + 8 + Number(bytes.readBigUInt64LE(at))
    found.push(bytes.toString('utf8', at + 8, next))
    at = next
  }
  return found
}

export interface Shape { width: number, hidden: number, layers: number, heads: number, context: number }
export const SHAPE: Shape = { width: 64, hidden: 64, layers: 2, heads: 2, context: 8192 }

export function decoder ({ width, hidden, layers }: Shape, vocabulary: number): Tensor[] {
  const layer = (i: number): Tensor[] => Object.entries({
    attn_norm: [width], attn_q: [width, width], attn_k: [width, width], attn_v: [width, width],
    attn_output: [width, width], ffn_norm: [width], ffn_gate: [hidden, width], ffn_up: [hidden, width],
    ffn_down: [width, hidden]
  }).map(([name, sizes]) => [`blk.${i}.${name}.weight`, sizes])
  return [
    ['token_embd.weight', [vocabulary, width]], ['output_norm.weight', [width]],
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat()
  ]
}

function encoder ({ width, hidden, layers, context }: Shape, vocabulary: number): Tensor[] {
  const both = (name: string, ...sizes: number[]): Tensor[] =>
    [[`${name}.weight`, sizes], [`${name}.bias`, sizes.slice(0, 1)]]
  const layer = (i: number): Tensor[] => [
    ...['attn_q', 'attn_k', 'attn_v', 'attn_output'].flatMap((name) =>
      both(`blk.${i}.${name}`, width, width)),
    ...['attn_output_norm', 'layer_output_norm'].flatMap((name) => both(`blk.${i}.${name}`, width)),
    ...both(`blk.${i}.ffn_up`, hidden, width), ...both(`blk.${i}.ffn_down`, width, hidden)
  ]
  return [
    ['token_embd.weight', [vocabulary, width]], ['token_types.weight', [2, width]],
    ['position_embd.weight', [context, width]], ...both('token_embd_norm', width),
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat()
  ]
}

/** Deterministic pseudo-random weights; norm weights are 1. */
function weights (sizes: number[], name: string, next: () => number): Float32Array {
  const values = new Float32Array(sizes.reduce((a, b) => a * b, 1))
  return /norm\.weight$/.test(name) ? values.fill(1) : values.map(() => next() - 0.5)
}

export interface ModelOptions {
  /** Path of a file with the vocabulary. */
  vocabulary: string
  template?: string
  /** Tokens that the model generates in this order for any prompt; they must be distinct. */
  script?: readonly string[]
  /** True for a text encoder; otherwise the model is a decoder. */
  encoder?: boolean
  /** GGUF pooling type of a decoder's embeddings. */
  pooling?: number
  shape?: Partial<Shape>
}

/**
 * Weights of a scripted model, in which the previous token alone determines the next one. Tokens outside the
 * script lead to its first token.
 */
function scripted (width: number, { size, ids, last }: Vocabulary): Record<string, Float32Array> {
  const [input, output] = [new Float32Array(size * width), new Float32Array(size * width)]
  for (let id = 0; id < size; id++) input[id * width + 1 + ids.indexOf(id)] = 1
  for (const [step, id] of [...ids, last].entries()) output[id * width + step] = 10
  return { 'token_embd.weight': input, 'output.weight': output }
}

/** Writes a model file; returns its size in bytes. */
export function writeModel (
  path: string, { vocabulary, template, script, encoder: encodes = false, pooling, shape }: ModelOptions
): number {
  const full = { ...SHAPE, ...shape }
  const words = vocabularyOf(vocabulary, script ?? [])
  const { entries, kept, size } = words
  const name = encodes ? 'bert' : 'llama'
  const own: Record<string, Value> = {
    'general.architecture': name,
    [`${name}.context_length`]: full.context,
    [`${name}.embedding_length`]: full.width,
    [`${name}.block_count`]: full.layers,
    [`${name}.feed_forward_length`]: full.hidden,
    [`${name}.attention.head_count`]: full.heads,
    ...encodes
      ? { 'bert.attention.layer_norm_epsilon': { float: 1e-5 }, 'bert.attention.causal': false,
          'bert.pooling_type': 1 }
      : { 'llama.attention.layer_norm_rms_epsilon': { float: 1e-5 }, 'llama.vocab_size': size },
    ...pooling === undefined ? {} : { [`${name}.pooling_type`]: pooling },
    ...template === undefined ? {} : { 'tokenizer.chat_template': template }
  }
  const tensors = encodes ? encoder(full, size) : decoder(full, size)
  const fixed = script === undefined ? undefined : scripted(full.width, words)
  if (fixed !== undefined) tensors.push(['output.weight', [size, full.width]])
  let state = 7
  const next = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
  return writeGguf(path, own, tensors, (tensor, sizes) => fixed === undefined || /norm/.test(tensor)
    ? weights(sizes, tensor, next)
    : fixed[tensor] ?? new Float32Array(sizes.reduce((a, b) => a * b, 1)), { entries, kept })
}

/** Writes a GGUF file with these metadata entries and tensors; returns its size in bytes. */
export function writeGguf (
  path: string, own: Record<string, Value>, tensors: readonly Tensor[],
  valuesOf: (tensor: string, sizes: number[]) => Float32Array,
  { entries, kept }: Pick<Vocabulary, 'entries' | 'kept'> = { entries: [], kept: 0 }
): number {
  const all = [...Object.entries(own).map(([key, value]) => entry(key, value)), ...entries]
  const count = Object.keys(own).length + kept
  let offset = 0
  const data: Buffer[] = []
  const infos = tensors.map(([tensor, sizes]) => {
    const raw = Buffer.from(valuesOf(tensor, sizes).buffer)
    const padded = Buffer.concat([raw, Buffer.alloc(-raw.length & (ALIGN - 1))])
    data.push(padded)
    const info = [text(tensor), u32(sizes.length), ...[...sizes].reverse().map(u64), u32(0), u64(offset)]
    offset += padded.length
    return Buffer.concat(info)
  })
  const head = Buffer.concat([
    Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(count), ...all, ...infos
  ])
  const bytes = Buffer.concat([head, Buffer.alloc(-head.length & (ALIGN - 1)), ...data])
  writeFileSync(path, bytes)
  return bytes.length
}
