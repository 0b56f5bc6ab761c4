/** Memory needs computed from GGUF headers with several kinds of layers. */
import t from 'tap'
import { contextFacts, memoryFacts } from '../../llama-cpp/cards/gguf-memory.js'
import type { GgufHeader, GgufValue } from '../../llama-cpp/cards/gguf.js'

type Shapes = Record<string, readonly number[]>
const layered = (layers: readonly Shapes[]): GgufHeader['tensors'] => layers.flatMap((layer, at) =>
  Object.entries(layer).map(([name, shape]) =>
    ({ name: `blk.${at}.${name}.weight`, shape, type: 'fp16', bytes: 0 })))

function header (family: string, keys: Record<string, GgufValue>, layers: readonly Shapes[]): GgufHeader {
  const own = Object.entries(keys).map(([key, value]) => [`${family}.${key}`, value] as const)
  const words = { length: 500, values: null }
  const metadata = new Map<string, GgufValue>([['general.architecture', family],
    ['tokenizer.ggml.tokens', words], ...own])
  return { metadata, tensors: layered(layers), weightBytes: 1000 }
}

const attention = { attn_k: [64, 16], attn_v: [64, 8] }
const repeated = (count: number, layer: Shapes = attention): Shapes[] =>
  Array.from({ length: count }, () => layer)

t.test('what is kept of a context', async (t) => {
  const cases: ReadonlyArray<[string, GgufHeader, object]> = [
    ['grouped heads', header('llama', {}, repeated(2)), { tokenBytes: 96 }],
    ['one tensor for all', header('phi3', {
      embedding_length: 64, 'attention.head_count': 4, 'attention.head_count_kv': 2,
      'attention.sliding_window': 9
    }, repeated(1, { attn_qkv: [64, 128] })), { tokenBytes: 128 }],
    ['windows, five of six', header('gemma3', { 'attention.sliding_window': 512 }, repeated(6)),
      { tokenBytes: 48, windowTokenBytes: 240, windowTokens: 512 }],
    ['windows as listed', header('gemma4', {
      'attention.sliding_window': 32, 'attention.sliding_window_pattern': { length: 2, values: [0, 1] },
      'attention.shared_kv_layers': 1
    }, repeated(3)), { tokenBytes: 48, windowTokenBytes: 48, windowTokens: 32 }],
    ['latent attention', header('deepseek2', {}, repeated(2, {
      attn_kv_a_mqa: [64, 40], attn_k_b: [8, 32, 4]
    })), { tokenBytes: 160 }],
    ['a state', header('mamba', { 'ssm.state_size': 16, 'ssm.inner_size': 128 },
      repeated(1, { ssm_conv1d: [4, 128] })), { tokenBytes: 0, stateBytes: 4 * (3 * 128 + 16 * 128) }],
    ['states beside attention', header('qwen3next', { 'ssm.state_size': 2, 'ssm.inner_size': 8 },
      [{ ssm_conv1d: [4, 12], attn_qkv: [64, 12] }, attention]), { tokenBytes: 48, stateBytes: 4 * 52 }],
    ['short convolutions', header('lfm2', {}, [{ 'shortconv.conv': [3, 64] }, attention]),
      { tokenBytes: 48, stateBytes: 4 * 128 }],
    ['RWKV', header('rwkv7', { embedding_length: 64, 'wkv.head_size': 16 },
      repeated(1, { time_mix_key: [64, 64] })), { tokenBytes: 0, stateBytes: 4 * 64 * 18 }],
    ['an encoder', header('nomic-bert', {}, repeated(2)), { tokenBytes: 0 }],
    ['without heads for drafts', header('glm4moe', { nextn_predict_layers: 1 }, repeated(3)),
      { tokenBytes: 96 }]
  ]
  for (const [what, given, expected] of cases) t.same(contextFacts(given), expected, what)
})

t.test('the files of a model together', async (t) => {
  const experts = header('qwen3moe', { embedding_length: 10, expert_used_count: 3 },
    repeated(1, { ffn_up_exps: [10, 20, 8] }))
  const vision = { ...experts, metadata: new Map([
    ['clip.vision.image_size', 28], ['clip.vision.patch_size', 14],
    ['clip.vision.feed_forward_length', 6], ['clip.vision.embedding_length', 3]
  ]) }
  t.same(memoryFacts([experts, experts], header('llama', {}, repeated(1)), vision), {
    weightBytes: 4000, tokenBytes: 48, batchTokenBytes: 4 * (3 * 60 + 6 * 10) + 4 * 3 * 16, vocabulary: 1000,
    workBytes: 4 * 4 * 24
  })
})
