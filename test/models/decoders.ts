/**
 * Decoders with the operators, the names and the inputs of public exports, few layers and random weights.
 * Two ways of writing one are common: what onnxruntime-genai's builder writes (GroupQueryAttention, fused
 * norms), and what a trace of the PyTorch model gives (attention in single steps, a mask made in the graph).
 */
import { Graph, type Dtype } from './graph.js'

/** What is special to a family. */
export interface DecoderShape {
  name: string
  vocabulary: number
  hidden: number
  heads: number
  kvHeads: number
  head: number
  inner: number
  /** Attention and the rest of a layer; `conv` is the short convolution of LFM2. */
  layers: ReadonlyArray<'attention' | 'conv'>
  /** `traced` is Optimum's export. */
  style: 'fused' | 'traced'
  /** Whether positions are an input; where not, GroupQueryAttention turns queries and keys itself. */
  positions: boolean
  theta: number
  /** Dimensions of a head that are turned, if not all. */
  turned?: number
  /** Norms of the queries and keys of each head. */
  headNorms?: boolean
  /** Queries, keys and values come from one product, and so do both halves of the inner layer. */
  packed?: boolean
  /** Tokens that a sliding layer looks back on, and which layers do; they turn by their own theta. */
  window?: { tokens: number, theta: number, slides: (layer: number) => boolean }
  /** Norms behind attention and inner layer as well, scaled embeddings, gelu: Gemma 3. */
  sandwich?: boolean
  /** Two tables of rotations, the second for more tokens than this. */
  long?: number
  /** The input num_logits_to_keep. */
  keep?: boolean
  /** Embeddings in blocks of four bits, in forms that have four bits. */
  blockEmbedding?: boolean
  /** Logits of half-precision forms stay in half precision. */
  halfLogits?: boolean
}

/** Entries of the tables of rotations. */
const POSITIONS = 1024
const EPSILON = 1e-6
/** Taps of LFM2's convolutions (conv_L_cache). */
export const TAPS = 3
const EVERYTHING = 2 ** 40

/** Names of tensors that all layers use. */
interface Shared {
  lengths: string, total: string, mask: string, positions: string | null
  tables: { usual: [string, string], sliding: [string, string] }
}

const slice = (g: Graph, x: string, from: number | string, to: number, axis: number): string =>
  g.op('Slice', [x, typeof from === 'string' ? from : g.ints([from]), g.ints([to]), g.ints([axis])])

/** Cosines and sines of the positions, half of the turned dimensions wide. */
function tables (g: Graph, name: string, turned: number, theta: number, stretch = 1): [string, string] {
  const half = turned / 2
  const table = (wave: (angle: number) => number): Float32Array => Float32Array.from(
    { length: POSITIONS * half },
    (_, i) => wave(Math.floor(i / half) / stretch / theta ** (i % half / half)))
  return [g.reals(`cos_cache${name}`, [POSITIONS, half], table(Math.cos)),
    g.reals(`sin_cache${name}`, [POSITIONS, half], table(Math.sin))]
}

/** Writes one decoder. */
class Decoder {
  private readonly g: Graph
  private readonly s: DecoderShape
  /** The residual stream, and what is still to be added to it by the next norm. */
  private stream = ''
  private pending: string | null = null

  constructor (shape: DecoderShape, dtype: Dtype) {
    this.s = shape
    // The builder says so in its graphs; the quantiser of traced ones leaves it open.
    this.g = new Graph(shape.name, dtype, { in8Bits: shape.style === 'fused' })
  }

  build (): Graph {
    const { g, s } = this
    const ids = g.input('input_ids', 'int64', ['batch_size', 'sequence_length'])
    const mask = g.input('attention_mask', 'int64', ['batch_size', 'total_sequence_length'])
    const positions = s.positions
      ? g.input('position_ids', 'int64', ['batch_size', 'sequence_length'])
      : null
    const keep = s.keep === true ? g.input('num_logits_to_keep', 'int64', []) : null
    const shared = this.shared(ids, mask, positions)
    this.stream = g.embed(ids, 'model.embed_tokens.weight', s.vocabulary, s.hidden,
      { blocks: s.blockEmbedding === true })
    if (s.sandwich === true) this.stream = g.op('Mul', [this.stream, g.number(Math.sqrt(s.hidden))])
    s.layers.forEach((kind, layer) => { this.layer(kind, layer, shared) })
    this.head(this.norm('model.norm'), keep)
    return g
  }

  /** Lengths for GroupQueryAttention, or the mask of single steps; tables of rotations. */
  private shared (ids: string, mask: string, positions: string | null): Shared {
    const { g, s } = this
    const turned = s.turned ?? s.head
    let usual = tables(g, '', turned, s.theta)
    const sliding = s.window === undefined ? usual : tables(g, '_local', turned, s.window.theta)
    if (s.style === 'traced') {
      const made = { lengths: '', total: '', mask: this.traceMask(ids, mask) }
      return { ...made, positions, tables: { usual, sliding } }
    }
    const one = g.ints([1])
    const counted = g.op('Sub', [g.op('ReduceSum', [mask, one], { keepdims: 0 }), one])
    const all = g.op('Gather', [g.op('Shape', [mask]), g.ints([1], [])], { axis: 0 })
    if (s.long !== undefined) {
      const isLong = g.op('Greater', [all, g.ints([s.long], [])])
      usual = g.either(isLong, tables(g, '_long', turned, s.theta, 4), usual,
        ['max_positions', turned / 2]) as [string, string]
    }
    return {
      lengths: g.cast(counted, 'int32'), total: g.cast(all, 'int32'), mask: '', positions,
      tables: { usual, sliding }
    }
  }

  /** Zero where a token may look, the lowest number elsewhere: [rows, 1, tokens, all]. */
  private traceMask (ids: string, mask: string): string {
    const { g } = this
    const [zero, one] = [g.ints([0], []), g.ints([1], [])]
    const length = (of: string): string => g.op('Gather', [g.op('Shape', [of]), one], { axis: 0 })
    const [all, tokens] = [length(mask), length(ids)]
    const keys = g.op('Unsqueeze', [g.op('Range', [zero, all, one]), g.ints([0, 1, 2])])
    const past = g.op('Sub', [all, tokens])
    const queries = g.op('Unsqueeze', [g.op('Range', [past, all, one]), g.ints([0, 1, 3])])
    const given = g.cast(g.op('Unsqueeze', [mask, g.ints([1, 2])]), 'bool')
    const seen = g.op('And', [g.op('LessOrEqual', [keys, queries]), given])
    return g.op('Where', [seen, g.number(0), g.number(g.real === 'float16' ? -65504 : -3.4e38)])
  }

  private layer (kind: 'attention' | 'conv', layer: number, shared: Shared): void {
    const { g, s } = this
    const at = `model.layers.${layer}`
    const x = this.norm(`${at}.input_layernorm`)
    const mixed = kind === 'conv' ? this.conv(x, layer) : this.attention(x, layer, shared)
    const behind = (x: string, name: string): string =>
      s.sandwich === true ? this.plainNorm(x, `${at}.${name}`, s.hidden) : x
    this.pending = behind(mixed, 'post_attention_layernorm')
    const y = this.norm(`${at}.pre_feedforward_layernorm`)
    const inner = this.inner(y, at)
    this.pending = behind(inner, 'post_feedforward_layernorm')
    if (s.style === 'traced') {
      this.stream = g.op('Add', [this.stream, this.pending])
      this.pending = null
    }
  }

  /** The norm of the stream, to which what is pending is added first. */
  private norm (name: string): string {
    const { g, s, pending } = this
    const weight = g.gains(`${name}.weight`, s.hidden)
    this.pending = null
    if (s.style === 'traced') {
      if (pending !== null) this.stream = g.op('Add', [this.stream, pending])
      return this.traceNorm(this.stream, weight)
    }
    if (pending === null) {
      return g.op('SimplifiedLayerNormalization', [this.stream, weight],
        { axis: -1, epsilon: { float: EPSILON }, stash_type: 1 })
    }
    const outputs = [`${name}/output_0`, `${name}/output_3`] as const
    g.op('SkipSimplifiedLayerNormalization', [this.stream, pending, weight], { epsilon: { float: EPSILON } },
      [outputs[0], '', '', outputs[1]])
    this.stream = outputs[1]
    return outputs[0]
  }

  private plainNorm (x: string, name: string, size: number): string {
    const { g, s } = this
    const weight = g.gains(`${name}.weight`, size)
    if (s.style === 'traced') return this.traceNorm(x, weight)
    return g.op('SimplifiedLayerNormalization', [x, weight],
      { axis: -1, epsilon: { float: EPSILON }, stash_type: 1 })
  }

  private traceNorm (x: string, weight: string): string {
    const { g } = this
    const wide = g.real === 'float16' ? g.cast(x, 'float32') : x
    const two = g.real === 'float16' ? g.cast(g.number(2), 'float32') : g.number(2)
    const small = g.real === 'float16' ? g.cast(g.number(1e-5), 'float32') : g.number(1e-5)
    const mean = g.op('ReduceMean', [g.op('Pow', [wide, two])], { axes: [-1], keepdims: 1 })
    const scaled = g.op('Div', [wide, g.op('Sqrt', [g.op('Add', [mean, small])])])
    return g.op('Mul', [weight, g.real === 'float16' ? g.cast(scaled, 'float16') : scaled])
  }

  private attention (x: string, layer: number, shared: Shared): string {
    const { g, s } = this
    const at = `model.layers.${layer}.attn`
    const [wide, narrow] = [s.heads * s.head, s.kvHeads * s.head]
    const past = ['key', 'value'].map((what) => g.input(
      `past_key_values.${layer}.${what}`, g.real, ['batch_size', s.kvHeads, 'past_sequence_length', s.head]))
    const present = ['key', 'value'].map((what) => `present.${layer}.${what}`)
    for (const name of present) {
      g.output(name, g.real, ['batch_size', s.kvHeads, 'total_sequence_length', s.head])
    }
    const [q, k, v] = s.packed === true
      ? [g.linear(x, `${at}.qkv_proj.MatMul.weight`, s.hidden, wide + 2 * narrow), '', '']
      : [g.linear(x, `${at}.q_proj.MatMul.weight`, s.hidden, wide),
          g.linear(x, `${at}.k_proj.MatMul.weight`, s.hidden, narrow),
          g.linear(x, `${at}.v_proj.MatMul.weight`, s.hidden, narrow)]
    const parts = { q: q!, k: k!, v: v!, past: past as [string, string], present, layer, at, shared }
    const mixed = s.style === 'traced' ? this.tracedAttention(parts) : this.fusedAttention(parts)
    return g.linear(mixed, `${at}.o_proj.MatMul.weight`, wide, s.hidden)
  }

  private fusedAttention (
    { q, k, v, past, present, layer, at, shared }: Parts & { layer: number, at: string }
  ): string {
    const { g, s } = this
    const slides = s.window?.slides(layer) === true
    const [cos, sin] = slides ? shared.tables.sliding : shared.tables.usual
    let [queries, keys] = [q, k]
    if (s.headNorms === true) {
      queries = this.headNorm(queries, `${at}.q_norm`, s.heads)
      keys = this.headNorm(keys, `${at}.k_norm`, s.kvHeads)
    }
    if (shared.positions !== null) {
      const turn = (of: string, heads: number): string =>
        g.op('RotaryEmbedding', [of, shared.positions as string, cos, sin],
          { num_heads: heads, ...s.turned === undefined ? {} : { rotary_embedding_dim: s.turned } })
      queries = turn(queries, s.heads)
      keys = turn(keys, s.kvHeads)
    }
    const output = [`${at}/GroupQueryAttention/output_0`, ...present]
    const rotary = shared.positions === null ? [cos, sin] : []
    return g.op('GroupQueryAttention', [queries, keys, v, ...past, shared.lengths, shared.total, ...rotary], {
      num_heads: s.heads, kv_num_heads: s.kvHeads, scale: { float: s.head ** -0.5 }, softcap: { float: 0 },
      local_window_size: slides ? s.window!.tokens : -1,
      do_rotary: shared.positions === null ? 1 : 0, rotary_interleaved: 0
    }, output)
  }

  /** A norm of each head by itself. */
  private headNorm (x: string, name: string, heads: number): string {
    const { g, s } = this
    const each = this.plainNorm(g.op('Reshape', [x, g.ints([0, -1, s.head])]), name, s.head)
    return g.op('Reshape', [each, g.ints([0, -1, heads * s.head])])
  }

  private tracedAttention ({ q, k, v, past, present, shared }: Parts): string {
    const { g, s } = this
    const apart = (x: string, heads: number): string =>
      g.op('Transpose', [g.op('Reshape', [x, g.ints([0, 0, heads, s.head])])], { perm: [0, 2, 1, 3] })
    const turn = (x: string): string => {
      const picked = shared.tables.usual.map((table) => {
        const half = g.op('Gather', [table, shared.positions as string], { axis: 0 })
        return g.op('Unsqueeze', [g.op('Concat', [half, half], { axis: -1 }), g.ints([1])])
      })
      const [low, high] = [slice(g, x, 0, s.head / 2, 3), slice(g, x, s.head / 2, EVERYTHING, 3)]
      const swapped = g.op('Concat', [g.op('Neg', [high]), low], { axis: -1 })
      return g.op('Add', [g.op('Mul', [x, picked[0]!]), g.op('Mul', [swapped, picked[1]!])])
    }
    const queries = turn(apart(q, s.heads))
    const keys = g.op('Concat', [past[0], turn(apart(k, s.kvHeads))], { axis: 2 }, [present[0]!])
    const values = g.op('Concat', [past[1], apart(v, s.kvHeads)], { axis: 2 }, [present[1]!])
    const scores = g.op('MatMul',
      [queries, g.op('Transpose', [this.repeated(keys)], { perm: [0, 1, 3, 2] })])
    const masked = g.op('Add', [g.op('Mul', [scores, g.number(s.head ** -0.5)]), shared.mask])
    const mixed = g.op('MatMul', [g.op('Softmax', [masked], { axis: -1 }), this.repeated(values)])
    const flat = g.op('Transpose', [mixed], { perm: [0, 2, 1, 3] })
    return g.op('Reshape', [flat, g.ints([0, 0, s.heads * s.head])])
  }

  /** Each head of keys or values once for each of its queries' heads. */
  private repeated (x: string): string {
    const { g, s } = this
    const times = s.heads / s.kvHeads
    if (times === 1) return x
    const wide = g.op('Expand', [g.op('Unsqueeze', [x, g.ints([2])]), g.ints([1, 1, times, 1, 1])])
    const shape = g.op('Shape', [x])
    const part = (at: number): string => slice(g, shape, at, at + 1, 0)
    const whole = [part(0), g.ints([s.heads]), part(2), part(3)]
    return g.op('Reshape', [wide, g.op('Concat', whole, { axis: 0 })])
  }

  /** LFM2's gated short convolution, which keeps the last columns that it has seen. */
  private conv (x: string, layer: number): string {
    const { g, s } = this
    const at = `model.layers.${layer}.conv`
    const dims = ['batch_size', s.hidden, TAPS]
    const past = g.input(`past_conv.${layer}`, g.real, dims)
    g.output(`present_conv.${layer}`, g.real, dims)
    const wide = g.op('Transpose', [g.linear(x, `${at}.in_proj.MatMul.weight`, s.hidden, 3 * s.hidden)],
      { perm: [0, 2, 1] })
    const [b, c, y] = ['b', 'c', 'x'].map((part) => `${at}/Split/${part}`) as [string, string, string]
    g.op('Split', [wide, g.ints([s.hidden, s.hidden, s.hidden])], { axis: 1 }, [b, c, y])
    const seen = g.op('Concat', [past, g.op('Mul', [b, y])], { axis: 2 })
    g.op('Slice', [seen, g.ints([-TAPS]), g.ints([EVERYTHING]), g.ints([2])], {}, [`present_conv.${layer}`])
    // The oldest column is not looked at by any token.
    const out = g.depthwise(slice(g, seen, 1, EVERYTHING, 2), `${at}.conv.weight`, s.hidden, TAPS)
    const gated = g.op('Transpose', [g.op('Mul', [c, out])], { perm: [0, 2, 1] })
    return g.linear(gated, `${at}.out_proj.MatMul.weight`, s.hidden, s.hidden)
  }

  private inner (x: string, at: string): string {
    const { g, s } = this
    const name = `${at}.mlp`
    let [gate, up] = [`${name}/Split/gate`, `${name}/Split/up`]
    if (s.packed === true) {
      const both = g.linear(x, `${name}.gate_up_proj.MatMul.weight`, s.hidden, 2 * s.inner)
      g.op('Split', [both, g.ints([s.inner, s.inner])], { axis: -1 }, [gate, up])
    } else {
      gate = g.linear(x, `${name}.gate_proj.MatMul.weight`, s.hidden, s.inner)
      up = g.linear(x, `${name}.up_proj.MatMul.weight`, s.hidden, s.inner)
    }
    const active = s.sandwich === true
      ? g.op('FastGelu', [gate])
      : g.op('Mul', [gate, g.op('Sigmoid', [gate])])
    return g.linear(g.op('Mul', [active, up]), `${name}.down_proj.MatMul.weight`, s.inner, s.hidden)
  }

  /** Logits, spread so that a choice is clear. */
  private head (x: string, keep: string | null): void {
    const { g, s } = this
    const wanted = keep === null
      ? x
      : slice(g, x, g.op('Unsqueeze', [g.op('Neg', [keep]), g.ints([0])]), EVERYTHING, 1)
    const logits = g.linear(wanted, 'lm_head.MatMul.weight', s.hidden, s.vocabulary, 2)
    const type = s.halfLogits === true ? g.real : 'float32'
    g.op(type === g.real ? 'Identity' : 'Cast', [logits], type === g.real ? {} : { to: 1 }, ['logits'])
    g.output('logits', type, ['batch_size', 'sequence_length', s.vocabulary])
  }
}

interface Parts {
  q: string, k: string, v: string, past: [string, string], present: readonly string[], shared: Shared
}

/** The graph of a decoder in one form. */
export const decoderGraph = (shape: DecoderShape, dtype: Dtype): Graph => new Decoder(shape, dtype).build()
