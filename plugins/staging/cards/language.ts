/** Language models in ONNX: onnxruntime-genai's folders, and those of Optimum and transformers.js. */
import { filePathProblem } from '../files/names.js'
import { besides, child, count, isObject, text, type Folder, type Json } from './folder.js'
import type { Found } from './found.js'
import { layersTokenBytes } from '../../../kernel/index.js'
import { layoutOf, templateFacts, type Layout, type TemplateFacts } from '../../chat/cards.js'
import type { OnnxHeader } from '../../onnx/service.js'
import { cacheOf, chooseGraph, suffixOf, weightsOf } from './onnx-facts.js'
import { CardError } from './reader.js'

/** Names that configurations of different families give to the same size. */
const KEYS = {
  layers: ['num_hidden_layers', 'n_layer', 'n_layers', 'num_layers'],
  hidden: ['hidden_size', 'n_embd', 'd_model', 'dim'],
  heads: ['num_attention_heads', 'n_head', 'n_heads', 'num_heads'],
  kvHeads: ['num_key_value_heads', 'num_kv_heads', 'n_head_kv'],
  headSize: ['head_dim', 'head_size'],
  context: [
    'max_position_embeddings', 'n_positions', 'n_ctx', 'max_seq_len', 'max_sequence_length', 'seq_length',
    'context_length'
  ]
} as const

/** Of what is said of a template that fails. */
const PROBLEM_CHARS = 300

/** What a graph can do, by its outputs. */
type Kind = 'decoder' | 'encoder'

/** A folder with a genai_config.json. Undefined: there is none. @throws CardError */
export async function findGenai (folder: Folder): Promise<Found | undefined> {
  const [path, ...others] = folder.matching(/(^|\/)genai_config\.json$/)
  if (path === undefined) return undefined
  if (others.length > 0) {
    const names = list([path, ...others])
    throw new CardError(`it holds ${others.length + 1} variants (${names}): a model is one of them. ` +
      'Choose one by a pattern of its files.')
  }
  const model = child(await folder.json(path) ?? {}, 'model')
  const decoder = child(model, 'decoder')
  for (const part of ['encoder', 'vision', 'speech', 'embedding']) {
    if (!isObject(model[part])) continue
    throw new CardError(`${path} has a part "${part}": only plain language models run here`)
  }
  const name = text(decoder, 'filename') ?? ''
  const problem = filePathProblem(name)
  const graph = besides(path, name)
  if (problem !== null) throw new CardError(`${path}: model.decoder.filename is refused. ${problem}`)
  if (!folder.has(graph)) throw new CardError(`${path} names ${graph}, which is not among the files`)
  const config = { ...decoder, context_length: model['context_length'] }
  return await languageFacts({ folder, config, path, graph, family: text(model, 'type', 60) ?? 'genai' })
}

/** A config.json with a model_type, and graphs. Undefined: there is none. @throws CardError */
export async function findOptimum (folder: Folder): Promise<Found | undefined> {
  const path = 'config.json'
  const config = await folder.json(path)
  const family = text(config ?? {}, 'model_type', 60)
  const graphs = folder.matching(/^(onnx\/)?[^/]+\.onnx$/)
  if (config === undefined || family === undefined || graphs.length === 0) return undefined
  if (config['is_encoder_decoder'] === true) {
    throw new CardError(`${family} models have an encoder and a decoder: only plain language models run here`)
  }
  const whole = graphs.filter((name) => /(^|\/)model([_-][a-z0-9]+)?\.onnx$/.test(name))
  if (whole.length === 0 && graphs.length > 1) {
    throw new CardError(`none of its ${graphs.length} graphs is a whole model: looked for model.onnx, ` +
      `model_q4.onnx and the like, found ${list(graphs)}`)
  }
  const graph = chooseGraph(folder, whole.length > 0 ? whole : graphs)!
  const sizes = { ...config, ...child(config, 'text_config') }
  return await languageFacts({ folder, config: sizes, path, graph, family })
}

/** Where a language model's facts come from; `path` is its configuration. */
interface Parts { folder: Folder, config: Json, path: string, graph: string, family: string }

async function languageFacts (parts: Parts): Promise<Found> {
  const { folder, path, graph, family } = parts
  const header = await folder.onnx(graph)
  const kind = kindOf(header, graph)
  const tokenizer = besides(path, 'tokenizer.json')
  if (!folder.has(tokenizer)) {
    throw new CardError(`${tokenizer} is missing: a language model needs its tokenizer`)
  }
  const settings = await folder.json(besides(path, 'tokenizer_config.json')) ?? {}
  const template = kind === 'decoder' ? await templateOf(folder, path, settings) : null
  const sizes = sizesOf(parts, header, settings, kind)
  const layout = await layoutFound(parts, header, sizes)
  const quantization = suffixOf(header, graph)
  return {
    ...sizes,
    ...cacheFacts(layout, sizes),
    ...languageWords({ encoder: kind === 'encoder', family, quantization, template, ...sizes }),
    engine: 'onnx-lm',
    backends: ['cpu'],
    family,
    roles: new Map([...weightsOf(graph, header), [path, 'config']]),
    quantization
  }
}

/** A decoder answers logits and keeps a cache; an encoder answers vectors. @throws CardError for others */
function kindOf (header: OnnxHeader, path: string): Kind {
  const [inputs, outputs] = [header.inputs, header.outputs].map((ports) => ports.map(({ name }) => name))
  const tokens = inputs!.includes('input_ids')
  if (tokens && outputs!.includes('logits') && cacheOf(header) !== undefined) return 'decoder'
  const vectors = ['last_hidden_state', 'sentence_embedding', 'token_embeddings', 'pooler_output']
  if (tokens && vectors.some((name) => outputs!.includes(name))) return 'encoder'
  throw new CardError(`${path} is no language model: looked for input_ids, and logits with past key ` +
    `values, or last_hidden_state. It has inputs ${list(inputs!)} and outputs ${list(outputs!)}`)
}

const list = (names: readonly string[]): string =>
  names.slice(0, 8).join(', ') + (names.length > 8 ? ` and ${names.length - 8} more` : '')

type Sizes = Pick<Found, 'nLayers' | 'contextLength' | 'valueBytes'> &
  Required<Pick<Found, 'hiddenSize' | 'heads' | 'kvHeads' | 'headSize'>>

/** Sizes of the cache are the graph's where it fixes them: that is what runs. @throws CardError */
function sizesOf ({ config, path }: Parts, header: OnnxHeader, settings: Json, kind: Kind): Sizes {
  const cache = cacheOf(header)
  const nLayers = count(config, KEYS.layers) ?? cache?.layers
  if (nLayers === undefined) {
    throw new CardError(`${path} says no number of layers: looked for ${list(KEYS.layers)}`)
  }
  const stated = count(config, KEYS.kvHeads) ?? (config['multi_query'] === true ? 1 : undefined)
  const heads = count(config, KEYS.heads) ?? cache?.kvHeads ?? stated ?? 0
  const hidden = count(config, KEYS.hidden)
  const headSize = cache?.headSize ?? count(config, KEYS.headSize) ??
    (hidden !== undefined && heads > 0 ? Math.floor(hidden / heads) : 0)
  // Roberta counts two positions that no token has: the tokenizer knows better.
  const positions = [count(config, KEYS.context), count(settings, 'model_max_length')]
  const contextLength = Math.min(...positions.filter((length) => length !== undefined))
  if (contextLength === Infinity) {
    throw new CardError(`${path} says no length of context: looked for ${list(KEYS.context)}`)
  }
  return {
    nLayers, heads, headSize, contextLength, hiddenSize: hidden ?? heads * headSize,
    // An encoder keeps no keys and values.
    kvHeads: kind === 'encoder' ? 0 : cache?.kvHeads ?? stated ?? heads,
    ...cache?.valueBytes === undefined ? {} : { valueBytes: cache.valueBytes }
  }
}

/** How the graph is fed, by the engine that will. @throws CardError for one that it does not know */
async function layoutFound (
  { folder, path, graph }: Parts, header: OnnxHeader, sizes: Sizes
): Promise<Layout> {
  const genai = path.endsWith('genai_config.json') ? await folder.json(path) : null
  try {
    return layoutOf(header, sizes, genai)
  } catch (error) {
    throw new CardError(`${graph} cannot be run here: ${(error as Error).message}`, { cause: error })
  }
}

/** What a sequence takes, where it is not what the sizes of the layers say. */
function cacheFacts (
  { kind, tokenBytes, stateBytes }: Layout, sizes: Sizes
): Pick<Found, 'cacheTokenBytes' | 'stateBytes'> {
  const alike = layersTokenBytes(sizes, sizes.valueBytes) === tokenBytes
  return {
    ...kind === 'encoder' || alike ? {} : { cacheTokenBytes: tokenBytes },
    ...stateBytes === 0 ? {} : { stateBytes }
  }
}

/** What the chat template does, from the places where it may stand; null where there is none. */
async function templateOf (folder: Folder, path: string, settings: Json): Promise<TemplateFacts | null> {
  const file = besides(path, 'chat_template.jinja')
  const template = folder.has(file) ? await folder.text(file) : null
  const tokenizerConfig = { ...settings }
  tokenizerConfig['chat_template'] ??=
    (await folder.json(besides(path, 'chat_template.json')))?.['chat_template']
  return templateFacts({ template: template === '' ? null : template, tokenizerConfig })
}

/** Facts to put into words; `template` is what the chat template does, null where there is none. */
interface LanguageFacts {
  encoder: boolean
  family: string
  quantization: string | null
  nLayers: number
  contextLength: number
  template: TemplateFacts | null
}

const TOOLS: Record<TemplateFacts['tools'], string> = {
  shown: 'given to the chat template, which shows them to the model',
  unknown_format: 'no effect: the chat template writes calls in a way that is not known here',
  not_shown: 'no effect: the chat template does not show them',
  fails: 'no effect: the chat template fails with them'
}

/** Description, tasks and what is done with tools. A chat model also completes plain text. */
export function languageWords (facts: LanguageFacts): Pick<Found, 'description' | 'tasks' | 'support'> {
  const { encoder, family, quantization, nLayers, contextLength, template } = facts
  const kept = quantization === null ? '' : `, ${quantization}`
  const description = `${encoder ? 'Embedding' : 'Language'} model (${family}${kept}), ` +
    `${nLayers} layers, context of ${contextLength} tokens.`
  if (encoder) return { description, tasks: ['embeddings'] }
  if (template === null) return { description, tasks: ['completions'] }
  if (template.problem !== null) {
    return {
      description: `${description} It only completes texts: its chat template fails.`,
      tasks: ['completions'], support: { chat: `not served: ${template.problem.slice(0, PROBLEM_CHARS)}` }
    }
  }
  return { description, tasks: ['chat', 'completions'], support: { tools: TOOLS[template.tools] } }
}
