/** Creates a model that names the colour of an image: weights, and vision weights for them. */
import { decoder, SHAPE, vocabularyOf, writeGguf, type Shape, type Tensor, type Value } from './gguf.js'

/** Answers for a mostly red, green or blue image. No answer is a token of the original vocabulary. */
export const ANSWERS = ['It is red.', 'It is green.', 'It is blue.'] as const
/** Vector components after the three for colours: WORD marks text tokens, SAID marks the answer tokens. */
const [WORD, SAID] = [3, 4]
const IMAGE = 56
const PATCH = 14
const EYES = { width: 32, hidden: 32, heads: 2, layers: 2 }
/** Number of context tokens that an image takes, one per patch. */
export const IMAGE_TOKENS = (IMAGE / PATCH) ** 2

type Weights = Record<string, Float32Array>

/** A matrix of zeros except at `places`, which are row, column and value. */
function sparse ([rows, columns]: [number, number], ...places: [number, number, number][]): Float32Array {
  const values = new Float32Array(rows * columns)
  for (const [row, column, value] of places) values[row * columns + column] = value
  return values
}

/** A matrix that copies the first `count` components, scaled by `factor`. */
const passed = (rows: number, columns: number, count: number, factor: number): Float32Array => sparse(
  [rows, columns], ...Array.from({ length: count }, (_, i): [number, number, number] => [i, i, factor])
)

const valuesFrom = (weights: Weights) => (name: string, sizes: number[]): Float32Array => weights[name] ??
  new Float32Array(sizes.reduce((a, b) => a * b, 1)).fill(/(norm|ln[12])\.weight$/.test(name) ? 1 : 0)

/**
 * Writes the decoder: every token attends equally to all before it, so that the colours of an image reach the
 * last token, which selects the strongest colour as the answer. The end token follows.
 */
export function writeColours (
  path: string, { vocabulary, template }: { vocabulary: string, template: string }
): number {
  const full: Shape = { ...SHAPE }
  const { width } = full
  const words = vocabularyOf(vocabulary, ANSWERS)
  const { ids, last, size } = words
  const input = new Float32Array(size * width)
  for (let id = 0; id < size; id++) input[id * width + WORD] = 1
  // Much larger than the sum of an image's colours, so the end token follows an answer.
  for (const id of ids) input[id * width + SAID] = 1000
  const see: Weights = Object.fromEntries(['attn_v', 'attn_output'].flatMap((name) =>
    Array.from({ length: full.layers }, (_, i) => [`blk.${i}.${name}.weight`, passed(width, width, 3, 4)])))
  const output = sparse([size, width], [last, SAID, 100], ...ids.map((id, i): [number, number, number] =>
    [id, i, 10]))
  const own: Record<string, Value> = {
    'general.architecture': 'llama', 'llama.context_length': full.context, 'llama.embedding_length': width,
    'llama.block_count': full.layers, 'llama.feed_forward_length': full.hidden,
    'llama.attention.head_count': full.heads, 'llama.attention.layer_norm_rms_epsilon': { float: 1e-5 },
    'llama.vocab_size': size, 'tokenizer.chat_template': template
  }
  const tensors: Tensor[] = [...decoder(full, size), ['output.weight', [size, width]]]
  const weights = { 'token_embd.weight': input, 'output.weight': output, ...see }
  return writeGguf(path, own, tensors, valuesFrom(weights), words)
}

/**
 * Writes vision weights in LLaVA's layout that put a patch's mean colour into the decoder's components.
 */
export function writeVision (path: string): number {
  const { width, hidden, heads, layers } = EYES
  const own: Record<string, Value> = {
    'general.architecture': 'clip', 'clip.has_vision_encoder': true, 'clip.projector_type': 'mlp',
    'clip.vision.embedding_length': width, 'clip.vision.attention.head_count': heads,
    'clip.vision.feed_forward_length': hidden, 'clip.vision.block_count': layers,
    'clip.vision.projection_dim': SHAPE.width, 'clip.vision.attention.layer_norm_epsilon': { float: 1e-5 },
    'clip.vision.image_size': IMAGE, 'clip.vision.patch_size': PATCH,
    'clip.vision.image_mean': { floats: [0, 0, 0] }, 'clip.vision.image_std': { floats: [1, 1, 1] }
  }
  const layer = (i: number): Tensor[] => [
    ...['ln1', 'ln2'].flatMap((name): Tensor[] =>
      [[`v.blk.${i}.${name}.weight`, [width]], [`v.blk.${i}.${name}.bias`, [width]]]),
    ...['attn_q', 'attn_k', 'attn_v', 'attn_out'].map((name): Tensor =>
      [`v.blk.${i}.${name}.weight`, [width, width]]),
    [`v.blk.${i}.ffn_up.weight`, [hidden, width]], [`v.blk.${i}.ffn_down.weight`, [width, hidden]]
  ]
  const tensors: Tensor[] = [
    ['v.patch_embd.weight', [width, 3, PATCH, PATCH]],
    ['v.position_embd.weight', [IMAGE_TOKENS, width]],
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat(),
    ['mm.0.weight', [SHAPE.width, width]], ['mm.0.bias', [SHAPE.width]],
    ['mm.2.weight', [SHAPE.width, SHAPE.width]], ['mm.2.bias', [SHAPE.width]]
  ]
  const one = PATCH * PATCH
  const patch = new Float32Array(width * 3 * one)
  for (let colour = 0; colour < 3; colour++) {
    const from = (colour * 3 + colour) * one
    patch.fill(1 / one, from, from + one)
  }
  return writeGguf(path, own, tensors, valuesFrom({
    'v.patch_embd.weight': patch,
    'mm.0.weight': passed(SHAPE.width, width, 3, 1),
    'mm.2.weight': passed(SHAPE.width, SHAPE.width, 3, 8)
  }))
}
