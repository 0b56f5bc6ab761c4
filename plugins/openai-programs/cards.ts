/** Reads model cards of folders with safetensors: those of transformers, and those that MLX has converted. */
import { CardError } from '../runners/cards/reader.js'
import {
  child, count, fieldsOf, listOf, numberOf, text, textOf, type Fields
} from '../runners/language/json.js'
import { modelSampling } from '../runners/language/sampling.js'
import { modelWords } from '../runners/language/words.js'
import type { CardReader, Folder, ModelFacts } from '../staging/service.js'
import { ENGINE } from './descriptions.js'

/** Weights of the model itself: not Mistral's second copy of them, and no adapters. */
export const WEIGHTS = /^(?!consolidated|adapter)[^/]+\.safetensors$/
const INDEX = 'model.safetensors.index.json'
const TOKENIZERS = ['tokenizer.json', 'tokenizer.model', 'vocab.json', 'tekken.json', 'tiktoken.model']
/** Names of classes that write text. */
const WRITES = /(ForCausalLM|ForConditionalGeneration|LMHeadModel)$/
/** Bytes per cached value: 16 bits. */
const VALUE_BYTES = 2
const MOST_LAYERS = 10_000

async function findSafetensors (folder: Folder): Promise<ModelFacts | undefined> {
  const weights = folder.matching(WEIGHTS)
  const config = await folder.json('config.json')
  if (weights.length === 0 || config === undefined) return undefined
  const named = config['architectures']
  const [architecture] = Array.isArray(named) ? named.map((one) => String(one).slice(0, 100)) : []
  if (architecture !== undefined && !WRITES.test(String(architecture))) {
    throw new CardError(`its architecture is ${String(architecture)}, which writes no text: models in ` +
      'safetensors need one that ends in ForCausalLM or ForConditionalGeneration')
  }
  if (!TOKENIZERS.some((name) => folder.has(name))) {
    throw new CardError(`it has no tokenizer: none of ${TOKENIZERS.join(', ')}`)
  }
  await checkParts(folder, weights)
  // Models that also read images describe their language model apart.
  const inner = { ...config, ...child(config, 'text_config'), ...child(config, 'llm_config') }
  const need = (names: string[]): number => count(inner, names) ??
    fail(`config.json has no ${names[0]!}, or it is not a whole number above 0`)
  const nLayers = need(['num_hidden_layers', 'n_layer', 'num_layers'])
  if (nLayers > MOST_LAYERS) fail(`config.json says ${nLayers} layers, but at most ${MOST_LAYERS} can be`)
  const hiddenSize = need(['hidden_size', 'n_embd', 'd_model'])
  const heads = need(['num_attention_heads', 'n_head', 'num_heads'])
  const kvHeads = count(inner, 'num_key_value_heads') ?? heads
  const headSize = count(inner, 'head_dim') ?? Math.floor(hiddenSize / heads)
  const contextLength = need(['max_position_embeddings', 'n_positions', 'max_sequence_length', 'seq_length'])
  const quantization = quantizationOf(config, inner)
  const family = text(config, 'model_type', 60) ?? String(architecture).slice(0, 60)
  const template = await templateOf(folder)
  const words = modelWords({
    encoder: null, family, quantization, nLayers, contextLength,
    template: template === '' ? null : { hidesTools: !/\btools\b/.test(template) }
  })
  // Multi-head latent attention caches one compressed row instead of keys and values.
  const latent = count(inner, 'kv_lora_rank')
  const row = latent === undefined ? 2 * kvHeads * headSize : latent + (count(inner, 'qk_rope_head_dim') ?? 0)
  const vocabulary = count(inner, 'vocab_size')
  return {
    ...words,
    // Programs refuse chats without a template, unlike llama.cpp.
    ...template === '' ? { tasks: ['completions'], support: {} } : {},
    family, engine: ENGINE,
    backends: [...quantization.startsWith('mlx') ? [] : ['cuda'], 'metal', 'cpu'],
    roles: new Map(weights.map((path) => [path, 'weights'])),
    nLayers, hiddenSize, heads, kvHeads, supportsTensor: true, headSize, contextLength, quantization,
    defaults: modelSampling(new Map(), await folder.json('generation_config.json') ?? {}),
    memory: {
      weightBytes: weights.reduce((sum, path) => sum + folder.size(path), 0),
      tokenBytes: nLayers * row * VALUE_BYTES, ...vocabulary === undefined ? {} : { vocabulary }
    }
  }
}

/** @throws CardError if a file that the index lists is missing, or one is empty */
async function checkParts (folder: Folder, weights: readonly string[]): Promise<void> {
  const index = await folder.json(INDEX)
  const listed = new Set(Object.values(child(index ?? {}, 'weight_map')).map(textOf))
  const missing = [...listed].filter((path) => !weights.includes(path)).slice(0, 5)
  const empty = weights.find((path) => folder.size(path) === 0)
  if (missing.length > 0) throw new CardError(`${INDEX} lists files that are missing: ${missing.join(', ')}`)
  if (empty !== undefined) throw new CardError(`${empty} is empty`)
}

/** The format of the weights: MLX's bits, the method of others, or the type of the numbers. */
function quantizationOf (config: Fields, inner: Fields): string {
  const { quant_method: method } =
    { ...child(inner, 'quantization_config'), ...child(config, 'quantization_config') }
  const mlx = numberOf(child(config, 'quantization')['bits'])
  if (mlx !== undefined) return `mlx-${mlx}bit`
  return textOf(method) || (text(inner, ['torch_dtype', 'dtype'], 40) ?? 'float32')
}

/** The chat template: a file, or a text or a list of named texts in tokenizer_config.json. */
export function templateIn (config: Fields, file: string): string {
  const given = config['chat_template']
  return file !== '' ? file : Array.isArray(given)
    ? textOf(listOf(given).find(({ name }) => name === 'default')?.['template']) : textOf(given)
}

async function templateOf (folder: Folder): Promise<string> {
  const [file, apart] = ['chat_template.jinja', 'chat_template.json']
  const config = await folder.json('tokenizer_config.json') ?? {}
  const own = templateIn(config, folder.has(file) ? await folder.text(file) : '')
  return own === '' ? textOf(fieldsOf(await folder.json(apart))['chat_template']) : own
}

function fail (message: string): never { throw new CardError(message) }

export default {
  engine: ENGINE,
  formats: [{ rank: 90, files: '*.safetensors with config.json and a tokenizer', find: findSafetensors }]
} satisfies CardReader
