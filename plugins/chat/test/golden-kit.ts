/** Which models have golden answers, and to which prompts; test/bench/chat-goldens.mjs makes them. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SHARED } from './engine-kit.js'
import type { DecoderShape } from './engine-onnx.js'

export { SHARED } from './engine-kit.js'

/** A prompt and how many tokens are written at most. */
export interface GoldenPrompt { prompt: number[], tokens: number }

/** A model with goldens: a graph file, or the shape of a made-up one. */
export interface GoldenModel { name: string, file?: string, shape?: DecoderShape, prompts: GoldenPrompt[] }

/** One greedy answer of the peer. */
export interface GoldenAnswer { prompt: number[], ids: number[], logprobs: number[] }

/** A file of goldens; `sha256` is that of the graph. */
export interface Golden { name: string, by: string, sha256: string, answers: GoldenAnswer[] }

/** config.json of the made-up models, as the peer wants it. */
export const TINY = {
  model_type: 'llama', architectures: ['LlamaForCausalLM'], hidden_size: 32, num_hidden_layers: 2,
  num_attention_heads: 2, num_key_value_heads: 2, head_dim: 16, vocab_size: 64, max_position_embeddings: 128
}

/** Prompts of different lengths that mean nothing; the answers end at different times. */
function prompts (vocabulary: number, count: number, tokens: number): GoldenPrompt[] {
  return Array.from({ length: count }, (_, n) => ({
    prompt: Array.from({ length: 1 + (n * 7) % 24 }, (_, i) => (i * 37 + n * 101) % (vocabulary - 3) + 3),
    tokens: tokens + 3 * n
  }))
}

/** Beginnings of stories, after the token that starts a text. */
const STORIES: GoldenPrompt[] = [{ prompt: [1], tokens: 200 }, ...prompts(512, 9, 30)
  .map(({ prompt, tokens }) => ({ prompt: [1, ...prompt], tokens }))]

const stories = (layout: string): string => join(SHARED, 'data/stories260K', layout, 'model.onnx')
const guide = fileURLToPath(new URL('./fixtures/guide/onnx/model_quantized.onnx', import.meta.url))

export const GOLDENS: GoldenModel[] = [
  { name: 'tiny-optimum', shape: {}, prompts: prompts(64, 10, 30) },
  { name: 'tiny-genai', shape: { attention: 'gqa' }, prompts: prompts(64, 10, 30) },
  { name: 'stories260k-optimum', file: stories('optimum'), prompts: STORIES },
  { name: 'stories260k-genai', file: stories('genai-gqa'), prompts: STORIES },
  { name: 'guide', file: guide, prompts: prompts(1024, 10, 40) }
]
