/** Builds tiny GGUF models with random weights, a byte vocabulary and a chat template. */
import { seededRandom } from './random.js'

export type Value = string | number | boolean | { f32: number } | string[] | { i32: number[] }
export interface Tensor { name: string, shape: number[], values: Float32Array }

const [U32, I32, F32, BOOL, STRING, ARRAY] = [4, 5, 6, 7, 8, 9]
const ALIGNMENT = 32

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
const u64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
const f32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatLE(value)
  return bytes
}
const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])

function valueBytes (value: Value): Buffer[] {
  if (typeof value === 'string') return [u32(STRING), text(value)]
  if (typeof value === 'number') return [u32(U32), u32(value)]
  if (typeof value === 'boolean') return [u32(BOOL), Buffer.from([value ? 1 : 0])]
  if (Array.isArray(value)) return [u32(ARRAY), u32(STRING), u64(value.length), ...value.map(text)]
  if ('f32' in value) return [u32(F32), f32(value.f32)]
  return [u32(ARRAY), u32(I32), u64(value.i32.length), Buffer.from(Int32Array.from(value.i32).buffer)]
}

/** Builds a GGUF file with 32-bit weights. */
export function gguf (metadata: Record<string, Value>, tensors: readonly Tensor[]): Buffer {
  const padded = (bytes: Buffer): Buffer =>
    Buffer.concat([bytes, Buffer.alloc((ALIGNMENT - bytes.length % ALIGNMENT) % ALIGNMENT)])
  let offset = 0
  const infos = tensors.flatMap(({ name, shape, values }) => {
    const info = [text(name), u32(shape.length), ...shape.map(u64), u32(0), u64(offset)]
    offset += Math.ceil(values.byteLength / ALIGNMENT) * ALIGNMENT
    return info
  })
  const entries = Object.entries(metadata)
  const header = Buffer.concat([Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(entries.length),
    ...entries.flatMap(([key, value]) => [text(key), ...valueBytes(value)]), ...infos])
  return Buffer.concat([padded(header),
    ...tensors.map(({ values }) => padded(Buffer.from(values.buffer, 0, values.byteLength)))])
}

/** GPT-2's mapping of bytes to visible characters. */
const visible = ((): string[] => {
  let next = 256
  const isVisible = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(isVisible(b) ? b : next++))
})()
/** Special tokens, with ids from 256. */
const SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>', '<tool_call>', '</tool_call>']
export const CHATML = '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n' +
  '{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'

export const SHAPE = { layers: 2, hidden: 64, heads: 4, kvHeads: 2, headSize: 16, feed: 96, context: 512 }

interface Options {
  metadata?: Record<string, Value>
  template?: string | null
  special?: string[]
  /** Tokens and BPE merges for the vocabulary, which otherwise has one token per byte. */
  learned?: { tokens: string[], merges: string[] }
  context?: number
  /** Modifies the tensors before they are written. */
  change?: (tensors: Tensor[]) => void
}

/** A model file of about 300 kB. The model writes lower-case letters, spaces and JSON punctuation. */
export function tinyModel (
  {
    metadata = {}, template = CHATML, special = [], change = () => {}, context = SHAPE.context,
    learned = { tokens: visible, merges: [`${visible[104]} ${visible[105]}`] }
  }: Options = {}
): Buffer {
  const { layers, hidden, heads, kvHeads, headSize, feed } = SHAPE
  const words = learned.tokens.length
  const tokens = [...learned.tokens, ...SPECIAL, ...special]
  const random = seededRandom(7)
  const filled = (name: string, shape: number[], scale: number): Tensor => {
    const length = shape.reduce((a, b) => a * b)
    const values = Float32Array.from({ length }, () => (random() * 2 - 1) * scale)
    return { name, shape, values }
  }
  const ones = (name: string): Tensor => ({ name, shape: [hidden], values: new Float32Array(hidden).fill(1) })
  const output = filled('output.weight', [hidden, tokens.length], 0.6)
  for (let id = 0; id < tokens.length; id++) {
    if (!/[a-z {}"]/.test(tokens[id]!) || id >= words) output.values.fill(0, id * hidden, (id + 1) * hidden)
  }
  const embedding = filled('token_embd.weight', [hidden, tokens.length], 1)
  const tensors = [embedding, ones('output_norm.weight'), output]
  for (let layer = 0; layer < layers; layer++) {
    const named = (name: string): string => `blk.${layer}.${name}.weight`
    tensors.push(ones(named('attn_norm')), ones(named('ffn_norm')),
      filled(named('attn_q'), [hidden, heads * headSize], 0.3),
      filled(named('attn_k'), [hidden, kvHeads * headSize], 0.3),
      filled(named('attn_v'), [hidden, kvHeads * headSize], 0.3),
      filled(named('attn_output'), [heads * headSize, hidden], 0.3),
      filled(named('ffn_gate'), [hidden, feed], 0.3), filled(named('ffn_up'), [hidden, feed], 0.3),
      filled(named('ffn_down'), [feed, hidden], 0.3))
  }
  change(tensors)
  return gguf({
    'general.architecture': 'llama', 'general.name': 'tiny', 'llama.block_count': layers,
    'llama.context_length': context, 'llama.embedding_length': hidden, 'llama.feed_forward_length': feed,
    'llama.attention.head_count': heads, 'llama.attention.head_count_kv': kvHeads,
    'llama.rope.dimension_count': headSize, 'llama.attention.layer_norm_rms_epsilon': { f32: 1e-5 },
    'llama.vocab_size': tokens.length,
    'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.pre': 'trillion', 'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.token_type': { i32: tokens.map((_, id) => id < words ? 1 : 3) },
    'tokenizer.ggml.merges': learned.merges, 'tokenizer.ggml.bos_token_id': words,
    'tokenizer.ggml.eos_token_id': words + 2, 'tokenizer.ggml.add_bos_token': false,
    ...template === null ? {} : { 'tokenizer.chat_template': template },
    ...metadata
  }, tensors)
}

/** A reranker in Qwen3's layout with two output classes, of which the first is "yes". */
export function rankingModel (metadata: Record<string, Value> = {}): Buffer {
  const { layers, hidden, heads, kvHeads, headSize, feed, context } = SHAPE
  const random = seededRandom(11)
  const ones = (name: string): Tensor =>
    ({ name, shape: [headSize], values: new Float32Array(headSize).fill(1) })
  return tinyModel({
    metadata: {
      'general.architecture': 'qwen3', 'qwen3.block_count': layers, 'qwen3.context_length': context,
      'qwen3.embedding_length': hidden, 'qwen3.feed_forward_length': feed,
      'qwen3.attention.head_count': heads, 'qwen3.attention.head_count_kv': kvHeads,
      'qwen3.attention.key_length': headSize, 'qwen3.attention.value_length': headSize,
      'qwen3.attention.layer_norm_rms_epsilon': { f32: 1e-5 }, 'qwen3.pooling_type': 4,
      'qwen3.classifier.output_labels': ['yes', 'no'], ...metadata
    },
    change (tensors) {
      for (let layer = 0; layer < layers; layer++) {
        tensors.push(ones(`blk.${layer}.attn_q_norm.weight`), ones(`blk.${layer}.attn_k_norm.weight`))
      }
      const values = Float32Array.from({ length: 2 * hidden }, () => random() * 2 - 1)
      tensors.push({ name: 'cls.output.weight', shape: [hidden, 2], values })
    }
  })
}
