/** What GGUF headers say about the memory of a model: mostly shapes of tensors, named alike everywhere. */
import type { ContextFacts, MemoryFacts } from '../../../kernel/index.js'
import { isCount } from './folder.js'
import type { GgufHeader, GgufValue } from './gguf.js'

/** Bytes of a cached key or value, and of a number in a state or an intermediate result. */
const VALUE = 2
const NUMBER = 4
/** Widest results of a layer that exist at once, and copies of its input. */
const WIDE_RESULTS = 3
const INPUTS = 6
/** Families whose layers see a window but each so many, if the file does not say: from llama.cpp. */
const WINDOWED: Readonly<Record<string, number>> = {
  gemma2: 2, gemma3: 6, gemma3n: 5, gemma4: 6, 'gpt-oss': 2, cohere2: 4, cohere2moe: 4, exaone4: 4,
  'exaone-moe': 4, olmo2: 4, afmoe: 4, smallthinker: 4, llama4: 4, plamo3: 8, mellum: 4, laguna: 4,
  mimo2: 0, 'granite-swa': 0, lfm2: 0
}
/** Of these the first of each so many sees the whole context, of the others the last. */
const DENSE_FIRST = new Set(['cohere2moe', 'smallthinker', 'laguna'])
/** Encoders keep nothing. */
const ENCODER = /bert|gemma-embedding/
/** llama.cpp sets it for llama4, whose files do not. */
const LLAMA4_WINDOW = 8192

/** The largest of one per layer, or a number. */
export const largestOf = (value: GgufValue | undefined): number | undefined => {
  const found = typeof value === 'object' && value !== null ? Math.max(...value.values ?? []) : value
  return isCount(found) ? found : undefined
}

/** Reads `family.key` of a header: of a layer where they differ. */
class Keys {
  readonly family: string
  private readonly metadata: GgufHeader['metadata']

  constructor ({ metadata }: GgufHeader) {
    this.metadata = metadata
    this.family = String(metadata.get('general.architecture') ?? '')
  }

  list (key: string): readonly number[] | null {
    const value = this.metadata.get(`${this.family}.${key}`)
    return typeof value === 'object' && value !== null ? value.values : null
  }

  number (key: string, layer?: number): number | undefined {
    const value = layer === undefined ? undefined : this.list(key)?.[layer]
    return value ?? largestOf(this.metadata.get(`${this.family}.${key}`))
  }
}

/** The tensors of each layer by name, without `blk.N.` and `.weight`. */
function layersOf ({ tensors }: GgufHeader): Map<string, readonly number[]>[] {
  const layers: Map<string, readonly number[]>[] = []
  for (const { name, shape } of tensors) {
    const [, at, key] = /^blk\.(\d{1,4})\.(.+)\.weight$/.exec(name) ?? []
    if (at !== undefined) (layers[Number(at)] ??= new Map()).set(key!, shape)
  }
  return Array.from(layers, (layer) => layer ?? new Map())
}

/** Values of a token that a layer keeps. */
function keptValues (layer: ReadonlyMap<string, readonly number[]>, keys: Keys, at: number): number {
  const width = (name: string): number | undefined => layer.get(name)?.[1]
  const latent = width('attn_kv_a_mqa')
  const index = width('indexer.attn_k') ?? 0
  if (latent !== undefined && layer.has('attn_k_b')) return latent + index
  const keyWidth = width('attn_k')
  if (keyWidth !== undefined) return keyWidth + (width('attn_v') ?? keyWidth) + index
  const isRecurrent = [...layer.keys()].some((name) => name.startsWith('ssm_'))
  if ((!layer.has('attn_qkv') || isRecurrent) && latent === undefined) return 0
  const heads = keys.number('attention.head_count', at) ?? 1
  const size = Math.floor((keys.number('embedding_length') ?? 0) / heads)
  return (keys.number('attention.head_count_kv', at) ?? heads) *
    ((keys.number('attention.key_length') ?? size) + (keys.number('attention.value_length') ?? size))
}

/** Numbers of the state that a recurrent layer keeps of a sequence. */
function stateValues (layer: ReadonlyMap<string, readonly number[]>, keys: Keys): number {
  const of = (key: string): number => keys.number(key) ?? 0
  const convolution = ['ssm_conv1d', 'ssm_conv1d_q', 'ssm_conv1d_k', 'ssm_conv1d_v', 'shortconv.conv']
    .map((name) => layer.get(name) ?? [1, 0])
    .reduce((sum, shape) => sum + (shape[0]! - 1) * shape.slice(1).reduce((a, b) => a * b, 1), 0)
  const heads = of('attention.head_count')
  if (layer.has('ssm_conv1d_q')) return convolution + of('kda.head_dim') ** 2 * heads
  if (layer.has('ssm_conv1d')) return convolution + of('ssm.state_size') * of('ssm.inner_size')
  if (![...layer.keys()].some((name) => name.startsWith('time_mix_'))) return convolution
  return of('embedding_length') * (of('wkv.head_size') + (keys.number('token_shift_count') ?? 2))
}

/** Whether a layer sees only the window. */
function isWindowed (keys: Keys, at: number): boolean {
  const period = keys.number('attention.sliding_window_pattern') ?? WINDOWED[keys.family]
  const each = keys.list('attention.sliding_window_pattern')
  if (each !== null) return each[at] === 1
  if (period === undefined || !(keys.family in WINDOWED)) return false
  if (period === 0) return true
  return DENSE_FIRST.has(keys.family) ? at % period !== 0 : at % period < period - 1
}

/** What a model keeps of its context. */
export function contextFacts (header: GgufHeader): ContextFacts {
  const keys = new Keys(header)
  const windowTokens = keys.number('attention.sliding_window') ??
    (keys.family === 'llama4' ? LLAMA4_WINDOW : 0)
  let [tokenValues, windowValues, numbers] = [0, 0, 0]
  const layers = layersOf(header)
  const own = layers.length - (keys.number('nextn_predict_layers') ?? 0)
  // Layers at the end use the keys and values of earlier ones.
  const sharing = keys.number('attention.shared_kv_layers') ?? (keys.family === 'gemma3n' ? own - 20 : 0)
  const keeping = own - sharing
  layers.slice(0, own).forEach((layer, at) => {
    numbers += stateValues(layer, keys)
    if (at >= keeping || ENCODER.test(keys.family)) return
    const values = keptValues(layer, keys, at)
    if (windowTokens > 0 && isWindowed(keys, at)) windowValues += values
    else tokenValues += values
  })
  return {
    tokenBytes: tokenValues * VALUE,
    ...windowValues === 0 ? {} : { windowTokenBytes: windowValues * VALUE, windowTokens },
    ...numbers === 0 ? {} : { stateBytes: numbers * NUMBER }
  }
}

/** What one token of a batch takes: the widest results of a layer, and some copies of its input. */
function batchTokenBytes (header: GgufHeader): number {
  const keys = new Keys(header)
  const used = keys.number('expert_used_count') ?? 1
  const widths = layersOf(header).flatMap((layer) => [...layer].map(([name, shape]) =>
    (shape[1] ?? 0) * (name.endsWith('_exps') ? used : 1)))
  const widest = widths.reduce((a, b) => Math.max(a, b), 0)
  return NUMBER * (WIDE_RESULTS * widest + INPUTS * (keys.number('embedding_length') ?? 0))
}

/** Memory to work on an image: the results of a layer for all its patches. */
function visionBytes (header: GgufHeader): number {
  const of = (key: string): number => largestOf(header.metadata.get(`clip.vision.${key}`)) ?? 0
  const patches = Math.floor(of('image_size') / Math.max(1, of('patch_size'))) ** 2
  return patches * NUMBER * (2 * of('feed_forward_length') + 4 * of('embedding_length'))
}

/** The files of a model: its own, split or not, and those beside it. */
export interface GgufFiles {
  parts: readonly GgufHeader[]
  drafter?: GgufHeader | undefined
  vision?: GgufHeader | undefined
}

export function memoryFacts ({ parts, drafter, vision }: GgufFiles): MemoryFacts {
  const [first] = parts as [GgufHeader]
  const header = { ...first, tensors: parts.flatMap(({ tensors }) => tensors) }
  const words = first.metadata.get('tokenizer.ggml.tokens')
  const all = [...parts, drafter, vision].filter((one) => one !== undefined)
  return {
    weightBytes: all.reduce((bytes, { weightBytes }) => bytes + weightBytes, 0),
    ...contextFacts(header),
    batchTokenBytes: batchTokenBytes(header),
    vocabulary: typeof words === 'object' && words !== null ? words.length : 0,
    ...vision === undefined ? {} : { workBytes: visionBytes(vision) },
    ...drafter === undefined ? {} : { drafter: contextFacts(drafter) }
  }
}
