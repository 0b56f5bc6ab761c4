/**
 * Estimates a model's memory from GGUF headers, mostly from tensor shapes; all families name tensors alike.
 */
import type { MemoryFacts } from '../../../kernel/index.js'
import { isCount } from '../../runners/language/json.js'
import type { GgufHeader, GgufValue } from './gguf.js'

/** Bytes per number in cached keys and values, recurrent states and intermediate results. */
const VALUE = 2
const NUMBER = 4
/** Number of buffers in use at once: some as large as a layer's largest result, others as its input. */
const WIDE_RESULTS = 3
const INPUTS = 6
/**
 * Model families with windowed attention. In each period of this many layers, only the last one sees the
 * whole context; for a negative number, only the first; for 0, none in the model. These are llama.cpp's
 * defaults for files without that metadata.
 */
const WINDOWED: Readonly<Record<string, number>> = {
  gemma2: 2, gemma3: 6, gemma3n: 5, gemma4: 6, 'gpt-oss': 2, cohere2: 4, cohere2moe: -4, exaone4: 4,
  'exaone-moe': 4, olmo2: 4, afmoe: 4, smallthinker: -4, llama4: 4, plamo3: 8, mellum: 4, laguna: -4,
  mimo2: 0, 'granite-swa': 0, lfm2: 0
}
/** Matches families of encoder models, which have no KV cache. */
const ENCODER = /bert|gemma-embedding/
/** llama.cpp's attention window for llama4 in tokens, which the files do not specify. */
const LLAMA4_WINDOW = 8192

/** The maximum over all layers of a metadata value, or the value itself if it is not an array. */
export const largestOf = (value: GgufValue | undefined): number | undefined => {
  const found = typeof value === 'object' && value !== null ? Math.max(...value.values ?? []) : value
  return isCount(found) ? found : undefined
}

type Layer = ReadonlyMap<string, readonly number[]>

interface Model {
  family: string
  /** A metadata array with one value per layer; null if the key has a single value. */
  list (key: string): readonly number[] | null
  /** A metadata number, for a layer if given; 0 for a missing key. */
  number (key: string, layer?: number): number
  layers: readonly Layer[]
}

function read ({ metadata, tensors }: GgufHeader): Model {
  const family = String(metadata.get('general.architecture') ?? '')
  const list = (key: string): readonly number[] | null => {
    const value = metadata.get(`${family}.${key}`)
    return typeof value === 'object' && value !== null ? value.values : null
  }
  const layers: Map<string, readonly number[]>[] = []
  for (const { name, shape } of tensors) {
    const [, at, key] = /^blk\.(\d{1,4})\.(.+)\.weight$/.exec(name) ?? []
    if (at !== undefined) (layers[Number(at)] ??= new Map()).set(key!, shape)
  }
  return {
    family, list,
    number: (key, layer = -1) => list(key)?.[layer] ?? largestOf(metadata.get(`${family}.${key}`)) ?? 0,
    layers: Array.from(layers, (layer) => layer ?? new Map())
  }
}

const has = (layer: Layer, prefix: string): boolean =>
  [...layer.keys()].some((name) => name.startsWith(prefix))

/** Number of values that a layer caches per token. */
function keptValues (layer: Layer, { number }: Model, at: number): number {
  const width = (name: string): number => layer.get(name)?.[1] ?? 0
  const [latent, keys, index] = [width('attn_kv_a_mqa'), width('attn_k'), width('indexer.attn_k')]
  if (latent > 0 && layer.has('attn_k_b')) return latent + index
  if (keys > 0) return keys + (width('attn_v') || keys) + index
  if (latent === 0 && (!layer.has('attn_qkv') || has(layer, 'ssm_'))) return 0
  const heads = number('attention.head_count', at)
  const size = Math.floor(number('embedding_length') / Math.max(1, heads))
  return (number('attention.head_count_kv', at) || heads) *
    ((number('attention.key_length') || size) + (number('attention.value_length') || size))
}

/** Number of values in a recurrent layer's state, per sequence. */
function stateValues (layer: Layer, { number }: Model): number {
  const convolution = [...layer].filter(([name]) => /^ssm_conv1d|^shortconv\.conv/.test(name))
    .reduce((sum, [, [taps = 1, ...rest]]) => sum + (taps - 1) * rest.reduce((a, b) => a * b, 1), 0)
  const heads = number('attention.head_count')
  if (layer.has('ssm_conv1d_q')) return convolution + number('kda.head_dim') ** 2 * heads
  if (layer.has('ssm_conv1d')) return convolution + number('ssm.state_size') * number('ssm.inner_size')
  if (!has(layer, 'time_mix_')) return convolution
  return number('embedding_length') * (number('wkv.head_size') + (number('token_shift_count') || 2))
}

function isWindowed ({ family, list, number }: Model, at: number): boolean {
  const each = list('attention.sliding_window_pattern')
  if (each !== null) return each[at] === 1
  const usual = WINDOWED[family]
  const period = number('attention.sliding_window_pattern') || Math.abs(usual ?? 1)
  if (usual === undefined || period === 0) return usual === 0
  return usual < 0 ? at % period !== 0 : at % period < period - 1
}

/** Memory for a context: bytes per token for keys and values, and bytes for recurrent states. */
export function contextFacts (header: GgufHeader, model = read(header)): Omit<MemoryFacts, 'weightBytes'> {
  const { family, number, layers } = model
  const windowTokens = number('attention.sliding_window') || (family === 'llama4' ? LLAMA4_WINDOW : 0)
  const own = layers.length - number('nextn_predict_layers')
  // The last layers reuse the keys and values of earlier layers, so they cache none.
  const keeping = own - (number('attention.shared_kv_layers') || (family === 'gemma3n' ? own - 20 : 0))
  let [tokenValues, windowValues, numbers] = [0, 0, 0]
  layers.slice(0, own).forEach((layer, at) => {
    numbers += stateValues(layer, model)
    if (at >= keeping || ENCODER.test(family)) return
    const values = keptValues(layer, model, at)
    if (windowTokens > 0 && isWindowed(model, at)) windowValues += values
    else tokenValues += values
  })
  return {
    tokenBytes: tokenValues * VALUE,
    ...windowValues === 0 ? {} : { windowTokenBytes: windowValues * VALUE, windowTokens },
    ...numbers === 0 ? {} : { stateBytes: numbers * NUMBER }
  }
}

/** Work memory in bytes per batch token: a layer's widest results and some copies of its input. */
function batchTokenBytes ({ layers, number }: Model): number {
  const used = number('expert_used_count') || 1
  const widths = layers.flatMap((layer) => [...layer].map(([name, [, width = 0]]) =>
    width * (name.endsWith('_exps') ? used : 1)))
  const widest = widths.reduce((a, b) => Math.max(a, b), 0)
  return NUMBER * (WIDE_RESULTS * widest + INPUTS * number('embedding_length'))
}

/** Work memory in bytes to process an image: one layer's results for all patches of the image. */
function visionBytes ({ metadata }: GgufHeader): number {
  const of = (key: string): number => largestOf(metadata.get(`clip.vision.${key}`)) ?? 0
  const patches = Math.floor(of('image_size') / Math.max(1, of('patch_size'))) ** 2
  return patches * NUMBER * (2 * of('feed_forward_length') + 4 * of('embedding_length'))
}

const wordsOf = ({ metadata }: GgufHeader): number => {
  const words = metadata.get('tokenizer.ggml.tokens')
  return typeof words === 'object' && words !== null ? words.length : 0
}

/** A model's memory, including the drafter and the vision weights. */
export function memoryFacts (
  parts: readonly GgufHeader[], drafter?: GgufHeader, vision?: GgufHeader
): MemoryFacts {
  const whole = { ...parts[0]!, tensors: parts.flatMap(({ tensors }) => tensors) }
  const facts: MemoryFacts = { weightBytes: 0, tokenBytes: 0 }
  // A drafter needs its own context of the same length, and its own batch.
  for (const one of drafter === undefined ? [whole] : [whole, drafter]) {
    const model = read(one)
    const { windowTokens = 0, ...more } = contextFacts(one, model)
    if (windowTokens > 0) facts.windowTokens = Math.max(windowTokens, facts.windowTokens ?? 0)
    const sums = { ...more, batchTokenBytes: batchTokenBytes(model), vocabulary: wordsOf(one) }
    for (const [key, value] of Object.entries(sums) as [keyof MemoryFacts, number][]) {
      facts[key] = (facts[key] ?? 0) + value
    }
  }
  facts.weightBytes = [...parts, drafter, vision].reduce((bytes, one) => bytes + (one?.weightBytes ?? 0), 0)
  return vision === undefined ? facts : { ...facts, workBytes: visionBytes(vision) }
}
