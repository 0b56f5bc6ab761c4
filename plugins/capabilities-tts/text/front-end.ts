import { normaliseSentence } from './normalise.js'
import { pronounce, soundsOf } from './pronounce.js'
import { sentences } from './sentences.js'

export interface Unit {
  /** IPA and the marks , . ; : ? ! in the notation of the bundled voice and Piper's English voices. */
  phonemes: string
  /** The unit ends a sentence, so a pause may follow. */
  sentenceEnd: boolean
}

/** Maximum phoneme symbols per unit; at least 40. The first unit is shorter, so that sound starts sooner. */
export interface UnitSizes { maxSymbols: number, firstSymbols: number }

/** A word, its pronunciation (or a part of it), and the punctuation mark after it, if any. */
interface Token { word: string, ipa: string, mark: string }

const MIN_SYMBOLS = 40
/** Shortest unit in symbols that may end after a clause, because "So," alone would sound cut off. */
const SHORT_CLAUSE = 12
/** Words before which a break is least audible. */
const BREAK_BEFORE = new Set([
  'and', 'or', 'but', 'that', 'which', 'who', 'because', 'if', 'when', 'while', 'where', 'in',
  'on', 'at', 'to', 'for', 'with', 'from', 'by', 'of', 'as'])

function tokenise (normalised: string): Token[] {
  const parts = normalised.toLowerCase().match(/[a-z']+|[,.;:?!]/g) ?? []
  const wordAt = (i: number): string => /[a-z]/.test(parts[i] ?? '') ? parts[i]! : ''
  const tokens: Token[] = []
  parts.forEach((part, i) => {
    const word = wordAt(i)
    const last = tokens.at(-1)
    if (word === '' && last !== undefined) last.mark = part
    if (word === '') return
    tokens.push(...soundsOf(word, wordAt(i - 1), wordAt(i + 1)).map((ipa) => ({ word, ipa, mark: '' })))
  })
  return tokens
}

/** Number of tokens from `start` that fit into `limit` characters; at least one. */
function fitting (tokens: readonly Token[], start: number, limit: number): number {
  let size = -1
  let count = 0
  for (let i = start; i < tokens.length; i++) {
    size += 1 + tokens[i]!.ipa.length + tokens[i]!.mark.length
    if (size > limit && count > 0) break
    count++
  }
  return count
}

function size (tokens: readonly Token[], start: number, end: number): number {
  let sum = 0
  for (let i = start; i < end; i++) sum += tokens[i]!.ipa.length + 1
  return sum
}

/**
 * End of the next unit: all that is left, else after the last clause that fits, else before a conjunction.
 */
function unitEnd (tokens: readonly Token[], start: number, limit: number): number {
  const full = start + fitting(tokens, start, limit)
  if (full >= tokens.length) return tokens.length
  for (let end = full; end > start; end--) {
    if (tokens[end - 1]!.mark !== '' && size(tokens, start, end) >= SHORT_CLAUSE) return end
  }
  for (let end = full; end > start + (full - start) / 2; end--) {
    if (BREAK_BEFORE.has(tokens[end]!.word)) return end
  }
  return full
}

/**
 * Converts English text to units of IPA, lazily, in constant memory and linear time. Text without words gives
 * no unit. Never throws. Skips letters of other scripts (`skippedScripts` in fold.ts names them).
 */
export function * prepareEnglish (text: string, sizes: UnitSizes): Generator<Unit, void, void> {
  let limit = Math.max(MIN_SYMBOLS, Math.min(sizes.firstSymbols, sizes.maxSymbols))
  for (const sentence of sentences(text)) {
    const tokens = tokenise(normaliseSentence(sentence))
    for (let start = 0; start < tokens.length;) {
      const end = unitEnd(tokens, start, limit)
      const phonemes = tokens.slice(start, end).map(({ ipa, mark }) => ipa + mark).join(' ')
      yield { phonemes, sentenceEnd: end === tokens.length }
      start = end
      limit = Math.max(MIN_SYMBOLS, sizes.maxSymbols)
    }
  }
}

/** Loads the dictionary and the letter-to-sound model before the first word (about 50 ms). */
export function warmUp (): void {
  pronounce('warm')
  pronounce('zzyzxian')
}
