/** Makes small ONNX and GGUF files for the card tests. */
import { existsSync, readdirSync, statSync, writeFileSync, mkdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundled } from '../../index.js'
import { deriveCard } from '../cards/derive.js'
import { definePlugin, type Manifest, type ModelCard } from '../../../kernel/index.js'
import type { FolderFile } from '../cards/folder.js'
import type { DeriveOptions } from '../cards/found.js'

export const repository = fileURLToPath(new URL('../../../', import.meta.url))

/** Folder with small public models for tests; undefined if missing. */
export function sharedData (): string | undefined {
  const shared = process.env['SVC_SHARED'] ?? join(repository, '../shared')
  const data = join(shared, 'data')
  return existsSync(data) ? data : undefined
}

export const engines = Object.fromEntries(bundled.flatMap((plugin) => {
  const { manifest }: { manifest: Manifest } = plugin
  return Object.entries(manifest.engines ?? {})
}))

export const withEngines = definePlugin(
  { name: 'engines', version: '1.0.0', kernel: '^1.0.0', summary: 'The engines.', engines }, () => ({}))

export const derive = async (folder: string, options: DeriveOptions): Promise<ModelCard> =>
  await deriveCard(folder, options, Object.values(engines).flatMap(({ cards }) => cards ?? []))

export function filesOf (folder: string): FolderFile[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name)).sort()
    .map((path) => ({ path: relative(folder, path), size: statSync(path).size }))
}

export function put (folder: string, files: Record<string, string | Uint8Array | object>): void {
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name)
    mkdirSync(dirname(path), { recursive: true })
    const raw = typeof content === 'string' || content instanceof Uint8Array
    writeFileSync(path, raw ? content : JSON.stringify(content))
  }
}

// Encoding of protobuf messages, of which ONNX files consist.

export function varint (value: number | bigint): Buffer {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, BigInt(value))
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128)
    rest >>= 7n
  }
  return Buffer.from([...bytes, Number(rest)])
}

type Content = number | bigint | string | Uint8Array

/** Encodes a protobuf field: a number as a varint, a string or bytes prefixed with its length. */
export function field (number: number, content: Content): Buffer {
  if (typeof content === 'number' || typeof content === 'bigint') {
    return Buffer.concat([varint(number * 8), varint(content)])
  }
  const bytes = Buffer.from(content as string)
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes])
}

export const message = (...fields: Buffer[]): Buffer => Buffer.concat(fields)

type Dim = number | string

export const port = (name: string, type: number, dims: Dim[]): Buffer => message(
  field(1, name),
  field(2, field(1, message(
    field(1, type),
    field(2, message(...dims.map((dim) => field(1, typeof dim === 'number' ? field(1, dim) : field(2, dim)))))
  ))))

export const tensor = (name: string, values: number, type = 1): Buffer => message(
  field(1, values), field(2, type), field(8, name), field(9, Buffer.alloc(values * (type === 1 ? 4 : 1))))

export const external = (entries: Record<string, string>): Buffer => message(
  field(1, 8), field(2, 1),
  ...Object.entries(entries).map(([k, v]) => field(13, message(field(1, k), field(2, v)))), field(14, 1))

/** Parts of an ONNX file; buffers are encoded protobuf messages. */
export interface OnnxParts {
  /** Versions of the ONNX format and of its operators. */
  ir?: number
  opset?: number
  functions?: Array<[string, string]>
  inputs?: Array<[string, number, Dim[]]>
  outputs?: Array<[string, number, Dim[]]>
  nodes?: Buffer[]
  initializers?: Buffer[]
  metadata?: Record<string, string>
}

export const node = (type: string, ...attributes: Buffer[]): Buffer =>
  message(field(4, type), ...attributes.map((a) => field(5, a)))

export function graph ({ inputs = [], outputs = [], nodes = [], initializers = [] }: OnnxParts): Buffer {
  return message(
    ...nodes.map((bytes) => field(1, bytes)),
    field(2, 'graph'),
    ...initializers.map((bytes) => field(5, bytes)),
    ...inputs.map((io) => field(11, port(...io))),
    ...outputs.map((io) => field(12, port(...io))))
}

export function onnx (parts: OnnxParts): Buffer {
  return message(
    field(1, parts.ir ?? 8),
    field(2, 'test'),
    field(7, graph(parts)),
    field(8, message(field(1, ''), field(2, parts.opset ?? 17))),
    ...(parts.functions ?? []).map(([name, domain]) => field(25, message(field(1, name), field(10, domain)))),
    ...Object.entries(parts.metadata ?? {}).map(([k, v]) => field(14, message(field(1, k), field(2, v)))))
}

/** Inputs and outputs of a decoder with a two-layer float32 cache. */
export const decoder: OnnxParts = {
  inputs: [
    ['input_ids', 7, ['batch', 'sequence']],
    ['attention_mask', 7, ['batch', 'total']],
    ...[0, 1].flatMap((i) => ['key', 'value'].map((kv): [string, number, Dim[]] =>
      [`past_key_values.${i}.${kv}`, 1, ['batch', 2, 'past', 16]]))
  ],
  outputs: [
    ['logits', 1, ['batch', 'sequence', 100]],
    ...[0, 1].flatMap((i) => ['key', 'value'].map((kv): [string, number, Dim[]] =>
      [`present.${i}.${kv}`, 1, ['batch', 2, 'total', 16]]))
  ],
  nodes: [node('MatMul')],
  initializers: [tensor('w', 12)]
}

/** A model configuration that matches `decoder`. */
export const config = {
  model_type: 'llama',
  hidden_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 512
}

// Encoding of GGUF headers and metadata.

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
export const u64 = (value: number | bigint): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
const string = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])

/** A metadata value: u32, text, an array of texts or u32, or the raw bytes after the key. */
export type Meta = number | string | string[] | number[] | Buffer

function meta (value: Meta): Buffer {
  if (Buffer.isBuffer(value)) return value
  if (typeof value === 'number') return Buffer.concat([u32(4), u32(value)])
  if (typeof value === 'string') return Buffer.concat([u32(8), string(value)])
  const texts = typeof value[0] === 'string'
  const items = value.map((item) => typeof item === 'string' ? string(item) : u32(item))
  return Buffer.concat([u32(9), u32(texts ? 8 : 4), u64(value.length), ...items])
}

/** A GGUF metadata array whose declared count may differ from its items. */
export const hostileArray = (type: number, count: bigint, ...items: Buffer[]): Buffer =>
  Buffer.concat([u32(9), u32(type), u64(count), ...items])

export interface GgufParts {
  version?: number
  metadata?: Record<string, Meta>
  tensors?: Array<{ name: string, dims: Array<number | bigint>, type: number, offset: number | bigint }>
  data?: number
  pairs?: bigint
  count?: bigint
}

export function gguf (parts: GgufParts): Buffer {
  const { version = 3, metadata = {}, tensors = [], data = 0, pairs, count } = parts
  const entries = Object.entries(metadata)
  const head = Buffer.concat([
    Buffer.from('GGUF'), u32(version), u64(count ?? tensors.length), u64(pairs ?? entries.length),
    ...entries.flatMap(([key, value]) => [string(key), meta(value)]),
    ...tensors.flatMap(({ name, dims, type, offset }) =>
      [string(name), u32(dims.length), ...dims.map(u64), u32(type), u64(offset)])
  ])
  return Buffer.concat([head, Buffer.alloc((32 - head.length % 32) % 32), Buffer.alloc(data)])
}

export const llama: GgufParts = {
  metadata: {
    'general.architecture': 'llama',
    'general.license': 'mit',
    'general.file_type': 15,
    'llama.block_count': 4,
    'llama.embedding_length': 64,
    'llama.context_length': 512,
    'llama.attention.head_count': 8,
    'llama.attention.head_count_kv': [2, 4, 4, 2],
    'tokenizer.chat_template': '{{ messages }}{{ tools }}',
    'tokenizer.ggml.tokens': ['<s>', 'a', 'b']
  },
  tensors: [
    { name: 'w', dims: [32, 4], type: 0, offset: 0 }, { name: 'q', dims: [256], type: 12, offset: 512 }
  ],
  data: 512 + 144
}
