/** The model that is measured: SmolLM-135M's shape with random weights, written once and kept. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cache, here } from '../lib/paths.mjs'
import { SMOL, writeDecoder } from './graph.mjs'

const BYTES = 600e6

/** Made-up words: every token is text of its own, so that every one is seen in a stream at once. */
function tokenizer (size) {
  return {
    version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null, decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE', merges: [], unk_token: null, fuse_unk: false, byte_fallback: false,
      vocab: Object.fromEntries(Array.from({ length: size }, (_, id) => [`Ġw${id.toString(36)}`, id]))
    }
  }
}

/** As transformers.js and llama.cpp's converters read it; no token ends an answer. */
const CONFIG = {
  model_type: 'llama', architectures: ['LlamaForCausalLM'], hidden_size: SMOL.width,
  intermediate_size: SMOL.hidden, num_hidden_layers: SMOL.layers, num_attention_heads: SMOL.heads,
  num_key_value_heads: SMOL.kvHeads, head_dim: SMOL.head, vocab_size: SMOL.vocabulary,
  max_position_embeddings: SMOL.positions, rms_norm_eps: 1e-5, rope_theta: 10_000, tie_word_embeddings: true,
  'transformers.js_config': { use_external_data_format: { 'model.onnx': 1 } }
}

const TEMPLATE = '{% for m in messages %}{{ m.content }}{% endfor %}'

/** Folder of the model in transformers.js' layout; written at the first call, 540 MB. */
export function benchModel (layout = 'optimum') {
  const hash = createHash('sha256')
  for (const name of ['graph.mjs', 'model.mjs']) hash.update(readFileSync(join(here, 'chat', name)))
  const folder = join(cache, `llama-${layout}-${hash.digest('hex').slice(0, 12)}`)
  const at = (name) => join(folder, name)
  if (!existsSync(at('config.json'))) {
    mkdirSync(at('onnx'), { recursive: true })
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize < 2 * BYTES) throw new Error(`${folder} needs ${2 * BYTES / 1e6} MB of free disk`)
    const parameters = writeDecoder(at('onnx/model.onnx'), layout)
    const json = {
      'tokenizer.json': tokenizer(SMOL.vocabulary),
      'tokenizer_config.json': { tokenizer_class: 'PreTrainedTokenizer', chat_template: TEMPLATE },
      'generation_config.json': { do_sample: false },
      'info.json': { parameters }
    }
    for (const [name, value] of Object.entries(json)) writeFileSync(at(name), JSON.stringify(value))
    // The last one: a folder without it is written again.
    writeFileSync(at('config.part'), JSON.stringify(CONFIG))
    renameSync(at('config.part'), at('config.json'))
  }
  return { folder, ...JSON.parse(readFileSync(at('info.json'), 'utf8')) }
}

/** The card that our engine and a store know the model by. */
export const benchCard = (layout = 'optimum') => ({
  modelId: `bench/llama-${layout}`, revision: '1', title: '', description: '', tasks: ['chat', 'completions'],
  family: 'llama', engine: 'onnx-lm', backends: ['cpu'], totalBytes: 540_000_000, nLayers: SMOL.layers,
  hiddenSize: SMOL.width, heads: SMOL.heads, kvHeads: SMOL.kvHeads, headSize: SMOL.head,
  contextLength: SMOL.positions, supportsTensor: false, companions: [], licence: 'none', languages: ['en'],
  quantization: null, voices: [], defaults: {}, support: {},
  files: ['onnx/model.onnx', 'onnx/model.onnx_data', 'config.json', 'generation_config.json',
    'tokenizer.json', 'tokenizer_config.json'].map((path) => ({ path, role: 'file', bytes: 0 }))
})

/** Token ids that mean nothing; another `seed` shares no beginning with this one. */
export function promptOf (length, seed = 1) {
  let state = (seed * 2654435761) >>> 0
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return 300 + (state >>> 8) % 40_000
  })
}
