/** The models that are measured: known shapes with random weights, written once and kept. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cache, here } from '../lib/paths.mjs'
import { QWEN, SMOL, writeDecoder } from './graph.mjs'

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
const configOf = ({ shape, graph }) => ({
  model_type: 'llama', architectures: ['LlamaForCausalLM'], hidden_size: shape.width,
  intermediate_size: shape.hidden, num_hidden_layers: shape.layers, num_attention_heads: shape.heads,
  num_key_value_heads: shape.kvHeads, head_dim: shape.head, vocab_size: shape.vocabulary,
  max_position_embeddings: shape.positions, rms_norm_eps: 1e-5, rope_theta: 10_000, tie_word_embeddings: true,
  'transformers.js_config': { use_external_data_format: { [graph]: 1 } }
})

/** The models by name: their layout (graph.mjs), shape, the name of the graph, bytes of the files about. */
const MODELS = {
  optimum: { layout: 'optimum', shape: SMOL, graph: 'model.onnx', bytes: 540e6 },
  genai: { layout: 'genai', shape: SMOL, graph: 'model.onnx', bytes: 540e6 },
  'q4 135M': { layout: 'q4', shape: SMOL, graph: 'model_q4.onnx', bytes: 200e6 },
  'q4 0.6B': { layout: 'q4', shape: QWEN, graph: 'model_q4.onnx', bytes: 1000e6 }
}
export const shapeOf = (name) => MODELS[name].shape

const TEMPLATE = '{% for m in messages %}{{ m.content }}{% endfor %}'

/** Folder of a model in transformers.js' layout; written at the first call. */
export function benchModel (name = 'optimum') {
  const { layout, shape, graph, bytes } = MODELS[name]
  const hash = createHash('sha256')
  for (const source of ['graph.mjs', 'model.mjs']) hash.update(readFileSync(join(here, 'chat', source)))
  const folder = join(cache, `llama-${name.replace(' ', '-')}-${hash.digest('hex').slice(0, 12)}`)
  const at = (file) => join(folder, file)
  if (!existsSync(at('config.json'))) {
    mkdirSync(at('onnx'), { recursive: true })
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize < 2 * bytes) throw new Error(`${folder} needs ${2 * bytes / 1e6} MB of free disk`)
    const parameters = writeDecoder(at(`onnx/${graph}`), layout, shape)
    const json = {
      'tokenizer.json': tokenizer(shape.vocabulary),
      'tokenizer_config.json': { tokenizer_class: 'PreTrainedTokenizer', chat_template: TEMPLATE },
      'generation_config.json': { do_sample: false },
      'info.json': { parameters }
    }
    for (const [file, value] of Object.entries(json)) writeFileSync(at(file), JSON.stringify(value))
    // The last one: a folder without it is written again.
    writeFileSync(at('config.part'), JSON.stringify(configOf(MODELS[name])))
    renameSync(at('config.part'), at('config.json'))
  }
  return { folder, ...JSON.parse(readFileSync(at('info.json'), 'utf8')) }
}

/** The card that our engine and a store know the model by. */
export function benchCard (name = 'optimum') {
  const { shape, graph, bytes } = MODELS[name]
  return {
    modelId: `bench/llama-${name.replace(' ', '-')}`, revision: '1', title: '', description: '',
    tasks: ['chat', 'completions'], family: 'llama', engine: 'onnx-lm', backends: ['cpu'], totalBytes: bytes,
    nLayers: shape.layers, hiddenSize: shape.width, heads: shape.heads, kvHeads: shape.kvHeads,
    headSize: shape.head, contextLength: shape.positions, supportsTensor: false, companions: [],
    licence: 'none', languages: ['en'], quantization: null, voices: [], defaults: {}, support: {},
    files: [`onnx/${graph}`, `onnx/${graph}_data`, 'config.json', 'generation_config.json',
      'tokenizer.json', 'tokenizer_config.json'].map((path) => ({ path, role: 'file', bytes: 0 }))
  }
}

/** Token ids that mean nothing; another `seed` shares no beginning with this one. */
export function promptOf (length, seed = 1) {
  let state = (seed * 2654435761) >>> 0
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return 300 + (state >>> 8) % 40_000
  })
}
