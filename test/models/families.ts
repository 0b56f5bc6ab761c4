/** The models of npm run test:onnx: sizes, configuration, tokenizer, and how their files are laid out. */
import { TAPS, decoderGraph, type DecoderShape } from './decoders.js'
import { encoderGraph } from './encoders.js'
import { DTYPES, type Dtype, type Graph } from './graph.js'
import { cut, published, wordPieces, type TextFiles } from './texts.js'

type Json = Record<string, unknown>

/** A model to be made. */
export interface Family {
  /** Name of its folder. */
  name: string
  kind: 'decoder' | 'encoder'
  dtypes: readonly Dtype[]
  opset: number
  /** Files beside each graph with its weights; 0 where they lie in the graph. */
  beside: number
  config: Json
  generation?: Json
  graph: (dtype: Dtype) => Graph
  text: () => Promise<TextFiles>
  /** Of an encoder: how its makers make one vector of a text. */
  pooling?: 'mean' | 'cls'
  /** Whether 1_Pooling says so, as in the repositories of sentence-transformers. */
  poolingFile?: boolean
}

const CHATML = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + " +
  "message['content'] + '<|im_end|>\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
const PHI = "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + " +
  "'<|end|>' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"

interface DecoderParts {
  shape: DecoderShape, type: string, architecture: string, text: () => Promise<TextFiles>, eos: number[]
  opset?: number, beside?: number, more?: Json
}

function decoder (parts: DecoderParts): Family {
  const { shape, type, architecture, text, eos, opset = 21, beside = 0, more = {} } = parts
  return {
    name: shape.name, kind: 'decoder', dtypes: DTYPES, opset, beside, text,
    graph: (dtype) => decoderGraph(shape, dtype),
    config: {
      model_type: type, architectures: [architecture], hidden_size: shape.hidden, head_dim: shape.head,
      num_attention_heads: shape.heads, num_key_value_heads: shape.kvHeads, intermediate_size: shape.inner,
      num_hidden_layers: shape.layers.length, vocab_size: shape.vocabulary, max_position_embeddings: 1024,
      rope_theta: shape.theta, eos_token_id: eos.length === 1 ? eos[0] : eos, ...more,
      'transformers.js_config': { kv_cache_dtype: { fp16: 'float16', q4f16: 'float16' } }
    },
    generation: { eos_token_id: eos }
  }
}

const ATTENTION = ['attention', 'attention', 'attention'] as const
const SMALL = { hidden: 64, heads: 4, kvHeads: 2, head: 16, inner: 128, layers: ATTENTION }

const llama = decoder({
  shape: {
    ...SMALL, name: 'Llama-3.2', vocabulary: 128_256, style: 'fused', positions: false, theta: 500_000
  },
  type: 'llama', architecture: 'LlamaForCausalLM', beside: 1, eos: [128_001, 128_009],
  text: async () => await published('llama3_1')
})

const qwen = decoder({
  shape: {
    ...SMALL, name: 'Qwen3', vocabulary: 151_936, style: 'fused', positions: true, theta: 1_000_000,
    head: 32, headNorms: true, keep: true
  },
  type: 'qwen3', architecture: 'Qwen3ForCausalLM', eos: [151_645, 151_643],
  text: async () => await published('qwen3')
})

const smol = decoder({
  shape: {
    ...SMALL, name: 'SmolLM2', vocabulary: 49_152, style: 'traced', positions: true, theta: 100_000,
    heads: 6, kvHeads: 2
  },
  type: 'llama', architecture: 'LlamaForCausalLM', opset: 14, eos: [49_151],
  text: async () => cut(await published('qwen3'), 49_152, ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
    { chat_template: CHATML, eos_token: '<|im_end|>', bos_token: '<|im_start|>', model_max_length: 8192 })
})

const gemma = decoder({
  shape: {
    ...SMALL, name: 'Gemma-3', vocabulary: 262_144, style: 'fused', positions: true, theta: 1_000_000,
    head: 32, kvHeads: 1, headNorms: true, sandwich: true, blockEmbedding: true,
    window: { tokens: 16, theta: 10_000, slides: (layer) => layer !== 1 }
  },
  type: 'gemma3_text', architecture: 'Gemma3ForCausalLM', beside: 1, eos: [1, 106],
  text: async () => await published('gemma3'),
  more: { sliding_window: 16, query_pre_attn_scalar: 32, rope_local_base_freq: 10_000,
    layer_types: ['sliding_attention', 'full_attention', 'sliding_attention'] }
})

const PHI_TOKENS = ['<|endoftext|>', '<|system|>', '<|user|>', '<|assistant|>', '<|end|>']
const phi = decoder({
  shape: {
    ...SMALL, name: 'Phi-4-mini', vocabulary: 100_352, style: 'fused', positions: false, theta: 10_000,
    hidden: 128, heads: 2, kvHeads: 1, head: 64, turned: 48, packed: true, long: 512, halfLogits: true
  },
  type: 'phi3', architecture: 'Phi3ForCausalLM', beside: 2, eos: [100_351, 100_347],
  text: async () => cut(await published('llama3_1'), 100_352, PHI_TOKENS,
    { chat_template: PHI, eos_token: '<|end|>', bos_token: '<|endoftext|>', model_max_length: 131_072 }),
  more: { partial_rotary_factor: 0.75, original_max_position_embeddings: 512 }
})

const LFM_LAYERS = ['conv', 'conv', 'attention', 'conv'] as const
const lfm = decoder({
  shape: {
    ...SMALL, name: 'LFM2', vocabulary: 65_536, style: 'fused', positions: true, theta: 1_000_000,
    headNorms: true, keep: true, layers: LFM_LAYERS
  },
  type: 'lfm2', architecture: 'Lfm2ForCausalLM', eos: [65_535],
  text: async () => cut(await published('llama3_1'), 65_536,
    ['<|startoftext|>', '<|im_start|>', '<|im_end|>'],
    { chat_template: `{{ bos_token }}${CHATML}`, eos_token: '<|im_end|>', bos_token: '<|startoftext|>' }),
  more: {
    conv_L_cache: TAPS,
    layer_types: LFM_LAYERS.map((kind) => kind === 'conv' ? kind : 'full_attention')
  }
})

function encoder (name: string, hidden: number, pooling: 'mean' | 'cls', poolingFile: boolean): Family {
  const shape = { name, vocabulary: 1024, hidden, heads: 4, inner: 2 * hidden, layers: 3 }
  return {
    name, kind: 'encoder', dtypes: DTYPES.filter((dtype) => dtype !== 'q4f16'), opset: 17, beside: 0,
    pooling, poolingFile,
    graph: (dtype) => encoderGraph(shape, dtype),
    text: async () => wordPieces(),
    config: {
      model_type: 'bert', architectures: ['BertModel'], hidden_size: hidden, num_attention_heads: 4,
      num_hidden_layers: 3, intermediate_size: shape.inner, vocab_size: 1024, max_position_embeddings: 512,
      hidden_act: 'gelu', type_vocab_size: 2, pad_token_id: 0
    }
  }
}

/** All models. */
export const FAMILIES: readonly Family[] = [
  llama, qwen, smol, gemma, phi, lfm, encoder('all-MiniLM-L6-v2', 96, 'mean', true),
  encoder('bge-small-en-v1.5', 96, 'cls', false)
]
