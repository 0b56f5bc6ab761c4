/**
 * Small tokenizers of our own making, in the two byte-exact families, and helpers for tests of the text
 * side.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { seededRandom } from '../text/random.js'
import type { LoadedText, SamplingParams } from '../text/types.js'

/** Greedy, nothing enforced. */
export const PLAIN: SamplingParams = {
  temperature: 0, topP: 1, topK: 0, minP: 0, seed: 1, frequencyPenalty: 0, presencePenalty: 0,
  repetitionPenalty: 1, repeatLastN: null, logitBias: {}, topLogprobs: 0, logprobs: false,
  grammar: { kind: 'none' }
}

const SAMPLE = `{"name": "Ada", "arguments": {"city": "Paris", "days": 3, "ok": true, "none": null}}
[{"id": 12, "tags": ["a", "b"]}, {"id": 345.5e-2, "text": "caf\\u00e9 \\"quoted\\""}] "}]}, "}", ": "]
The quick brown fox jumps over the lazy dog. the cat,
  the other; naïve façade 日本語 👩‍👩‍👧 <tool_call> </tool_call>`

const letterOf = ((): string[] => {
  const visible = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174)
  let next = 256
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(visible(b) ? b : next++))
})()

/** Learns `count` merges from words of symbols (byte pair encoding, the plain way). */
function learn (words: string[][], count: number): [string, string][] {
  const merges: [string, string][] = []
  while (merges.length < count) {
    const pairs = new Map<string, number>()
    for (const w of words) for (let i = 0; i + 1 < w.length; i++) pairs.set(`${w[i]}\0${w[i + 1]}`,
      (pairs.get(`${w[i]}\0${w[i + 1]}`) ?? 0) + 1)
    const best = [...pairs].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0]
    if (best === undefined) break
    const [a = '', b = ''] = best[0].split('\0')
    merges.push([a, b])
    words = words.map((w) => joined(w, a, b))
  }
  return merges
}

function joined (word: readonly string[], a: string, b: string): string[] {
  const out: string[] = []
  for (let i = 0; i < word.length; i++) {
    if (word[i] === a && word[i + 1] === b) {
      out.push(a + b)
      i++
    } else {
      out.push(word[i] as string)
    }
  }
  return out
}

const added = (id: number, content: string, special = true): object =>
  ({ id, content, special, single_word: false, lstrip: false, rstrip: false, normalized: false })

/** A byte-level BPE tokenizer: ids 0 to 3 are added tokens, then 256 bytes, then merges. */
export function byteLevelTokenizer (merges = 200): Record<string, unknown> {
  const words = SAMPLE.split(/(?=[ \n])/).map((w) => [...Buffer.from(w)].map((b) => letterOf[b] as string))
  const pairs = learn(words, merges)
  const vocab: Record<string, number> = {}
  let id = 4
  for (const letter of letterOf) vocab[letter] = id++
  for (const [a, b] of pairs) vocab[a + b] ??= id++
  return {
    added_tokens: [added(0, '<|end|>'), added(1, '<|start|>'), added(2, '<tool_call>', false),
      added(3, '[TOOL_CALLS]')],
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: { type: 'BPE', unk_token: null, vocab, merges: pairs.map((p) => p.join(' ')) }
  }
}

/** A SentencePiece-like tokenizer with byte fallback, as Llama 2 has it. */
export function pieceTokenizer (merges = 200): Record<string, unknown> {
  const words = SAMPLE.split(/(?= )/).map((w) => [...w.replaceAll(' ', '▁').replaceAll('\n', '')])
  const vocab: Record<string, number> = { '<unk>': 0, '<s>': 1, '</s>': 2 }
  let id = 3
  for (let b = 0; b < 256; b++) vocab[`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`] = id++
  for (const letter of new Set(words.flat())) vocab[letter] ??= id++
  const pairs = learn(words, merges)
  for (const [a, b] of pairs) vocab[a + b] ??= id++
  return {
    added_tokens: [added(0, '<unk>'), added(1, '<s>'), added(2, '</s>')],
    normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' },
      { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] },
    pre_tokenizer: null,
    post_processor: null,
    decoder: { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' },
      { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] },
    model: { type: 'BPE', unk_token: '<unk>', fuse_unk: true, byte_fallback: true, vocab,
      merges: pairs.map((p) => p.join(' ')) }
  }
}

/** Writes a model folder; returns its path. */
export async function modelFolder (root: string, files: Record<string, unknown>): Promise<string> {
  await mkdir(root, { recursive: true })
  for (const [name, value] of Object.entries(files)) {
    await writeFile(join(root, name), typeof value === 'string' ? value : JSON.stringify(value))
  }
  return root
}

/** A pseudorandom source for tests: floats, whole numbers below n, one of a list. */
export interface Dice { next (): number, below (n: number): number, of<T> (list: readonly T[]): T }

export function dice (seed: number): Dice {
  const next = seededRandom(seed)
  const below = (n: number): number => Math.floor(next() * n)
  return { next, below, of: (list) => list[below(list.length)] as (typeof list)[number] }
}

const PIECES = ['a', 'Z', ' ', '  ', '\n', 'the ', 'é', 'e\u0301', 'ß', '日',
  '本語', 'ครับ', '😀', '👩‍👩‍👧', '🇩🇪',
  '\u200d', '"', '\\', '{', '}', '<', '\ufeff', '\u0000', '𝒳', ' .', "n't"]

/** Text of random pieces: letters, combining marks, CJK, emoji, quotes. */
export function randomText (d: Dice, pieces = 12): string {
  return Array.from({ length: 1 + d.below(pieces) }, () => d.of(PIECES)).join('')
}

/** Tokens chosen from random logits until the end token or `most`; `text` without special tokens. */
export function babble (
  model: LoadedText, params: Partial<SamplingParams>, d: Dice, most: number, spread = 8
): { ids: number[], text: string, ended: boolean } {
  const chooser = model.chooser({ ...PLAIN, ...params })
  const ids: number[] = []
  for (let i = 0; i < most; i++) {
    const logits = Float32Array.from({ length: model.vocabularySize }, () => d.next() * spread)
    const { id } = chooser.choose(logits)
    if (model.eosIds.has(id)) return { ids, text: model.decode(ids), ended: true }
    ids.push(id)
  }
  return { ids, text: model.decode(ids), ended: false }
}
