/** Reads ONNX embedding models in the layouts of Optimum and transformers.js. */
import { CardError } from '../../runners/cards/reader.js'
import { child, count, text, type Fields } from '../../runners/language/json.js'
import { modelWords } from '../../runners/language/words.js'
import { chooseGraph, hasCache, readGraph, suffixOf, weightsOf } from '../../runners/onnx/facts.js'
import type { OnnxHeader } from '../../runners/onnx/facts.js'
import type { CardReader, Folder, ModelFacts } from '../../staging/service.js'
import { needsGguf, refusesCard } from '../refusals.js'
import { checkEncoder } from './bind.js'

/** Names that different model families use for the same size in config.json. */
const KEYS = {
  layers: ['num_hidden_layers', 'n_layer', 'n_layers', 'num_layers'],
  hidden: ['hidden_size', 'n_embd', 'd_model', 'dim'],
  heads: ['num_attention_heads', 'n_head', 'n_heads', 'num_heads'],
  headSize: ['head_dim', 'head_size'],
  context: [
    'max_position_embeddings', 'n_positions', 'n_ctx', 'max_seq_len', 'max_sequence_length', 'seq_length',
    'context_length'
  ]
} as const
/** Other files that limit the tokens in an input: the tokenizer's, and that of sentence-transformers. */
const LIMITS = [
  ['tokenizer_config.json', 'model_max_length'], ['sentence_bert_config.json', 'max_seq_length']
] as const
const VECTORS = ['last_hidden_state', 'sentence_embedding', 'token_embeddings']

/** Refuses a folder with a genai_config.json. Undefined if there is none. @throws CardError */
async function findGenai (folder: Folder, modelId: string): Promise<undefined> {
  const [path] = folder.matching(/(^|\/)genai_config\.json$/)
  if (path === undefined) return
  const family = text(child(await folder.json(path) ?? {}, 'model'), 'type', 60) ?? 'onnxruntime-genai'
  throw new CardError(needsGguf(modelId, family))
}

/** Reads config.json with a model_type, and graphs. Undefined if there are none. @throws CardError */
async function findEncoder (folder: Folder, modelId: string): Promise<ModelFacts | undefined> {
  const path = 'config.json'
  const config = await folder.json(path)
  const family = text(config ?? {}, 'model_type', 60)
  const graphs = folder.matching(/^(onnx\/)?[^/]+\.onnx$/)
  if (config === undefined || family === undefined || graphs.length === 0) return undefined
  if (config['is_encoder_decoder'] === true) {
    throw new CardError(`${family} models have an encoder and a decoder, which is not supported`)
  }
  const whole = graphs.filter((name) => /(^|\/)model([_-][a-z0-9]+)?\.onnx$/.test(name))
  if (whole.length === 0 && graphs.length > 1) {
    throw new CardError(`none of its ${graphs.length} graphs is a complete model: looked for model.onnx, ` +
      `model_q4.onnx and the like, found ${list(graphs)}`)
  }
  const graph = chooseGraph(folder, whole.length > 0 ? whole : graphs)!
  const header = await readGraph(folder, graph)
  refuseOthers(header, graph, modelId, family)
  if (!folder.has('tokenizer.json')) {
    throw new CardError('tokenizer.json is missing: a text model needs its tokenizer')
  }
  const settings = await Promise.all(LIMITS.map(async ([file, key]) =>
    count(await folder.json(file) ?? {}, key)))
  const sizes = sizesOf({ ...config, ...child(config, 'text_config') }, settings)
  try {
    checkEncoder(header, sizes)
  } catch (error) {
    throw new CardError(`${graph} cannot run here: ${(error as Error).message}`, { cause: error })
  }
  const quantization = suffixOf(header, graph)
  return {
    ...sizes, ...modelWords({ encoder: 'embeddings', family, quantization, template: null, ...sizes }),
    engine: 'onnx-lm', backends: ['cpu'], family,
    roles: new Map([...weightsOf(graph, header), [path, 'config']]), quantization
  }
}

/** @throws CardError for a language model, and for a graph without embeddings */
function refuseOthers (header: OnnxHeader, path: string, modelId: string, family: string): void {
  const [inputs, outputs] = [header.inputs, header.outputs].map((ports) => ports.map(({ name }) => name))
  const tokens = inputs!.includes('input_ids')
  if (tokens && outputs!.includes('logits') && hasCache(header)) {
    throw new CardError(needsGguf(modelId, family))
  }
  if (tokens && !outputs!.includes('logits') && VECTORS.some((name) => outputs!.includes(name))) return
  throw new CardError(`${path} is not an embedding model: looked for input_ids, and ${VECTORS.join(', ')}. ` +
    `It has inputs ${list(inputs!)} and outputs ${list(outputs!)}`)
}

const list = (names: readonly string[]): string =>
  names.slice(0, 8).join(', ') + (names.length > 8 ? ` and ${names.length - 8} more` : '')

type Sizes = Pick<ModelFacts, 'nLayers' | 'contextLength'> &
  Required<Pick<ModelFacts, 'hiddenSize' | 'heads' | 'kvHeads' | 'headSize'>>

/** @throws CardError */
function sizesOf (config: Fields, limits: readonly (number | undefined)[]): Sizes {
  const nLayers = count(config, KEYS.layers)
  if (nLayers === undefined) {
    throw new CardError(`config.json has no number of layers: looked for ${list(KEYS.layers)}`)
  }
  const heads = count(config, KEYS.heads) ?? 0
  const hidden = count(config, KEYS.hidden)
  const headSize = count(config, KEYS.headSize) ??
    (hidden !== undefined && heads > 0 ? Math.floor(hidden / heads) : 0)
  // RoBERTa's config counts two positions that no token can use; the tokenizer's limit is exact.
  const positions = [count(config, KEYS.context), ...limits]
  const contextLength = Math.min(...positions.filter((length) => length !== undefined))
  if (contextLength === Infinity) {
    throw new CardError(`config.json has no context length: looked for ${list(KEYS.context)}`)
  }
  // An encoder has no key/value cache.
  return { nLayers, heads, headSize, contextLength, hiddenSize: hidden ?? heads * headSize, kvHeads: 0 }
}

export default {
  engine: 'onnx-lm',
  formats: [
    { rank: 3, files: 'genai_config.json', find: findGenai },
    { rank: 4, files: 'config.json with model_type and *.onnx or onnx/*.onnx', find: findEncoder }
  ],
  refuses: refusesCard
} satisfies CardReader
