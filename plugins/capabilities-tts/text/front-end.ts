import { normaliseSentence } from './normalise.js'
import { pronounce, soundsOf } from './pronounce.js'
import { sentences } from './sentences.js'

export interface Unit {
  /** IPA and the marks , . ; : ? ! in the notation of the bundled voice and Piper's English voices. */
  phonemes: string
  /** The unit ends a sentence, so a pause may follow. */
  sentenceEnd: boolean
}

/**
 * Maximum phoneme symbols per unit; at least 40. The first unit is shorter, so that sound starts sooner,
 * unless its first phrase is longer.
 */
export interface UnitSizes { maxSymbols: number, firstSymbols: number }

/** A word, its pronunciation (or a part of it), and the punctuation mark after it, if any. */
interface Token { word: string, ipa: string, mark: string }

const MIN_SYMBOLS = 40
/** Shortest unit in symbols that may end after a clause, because "So," alone would sound cut off. */
const SHORT_CLAUSE = 12
/** Conjunctions and prepositions: a phrase ends before them. */
const PHRASE_STARTS = new Set((
  'and or but nor that which who because if when while where than though although unless until since ' +
  'whether in on at to for with from by of as into about after before through over under between without ' +
  'during'
).split(' '))

/** Words with another vowel before a vowel: "the answer", "to ask". */
const BEFORE_VOWEL: Record<string, string | undefined> = { the: 'ðɪ', to: 'tʊ' }

function tokenise (normalised: string): Token[] {
  const parts = normalised.toLowerCase().match(/[a-z']+|[,.;:?!]/g) ?? []
  const wordAt = (i: number): string => /[a-z]/.test(parts[i] ?? '') ? parts[i]! : ''
  const tokens: Token[] = []
  parts.forEach((part, i) => {
    const word = wordAt(i)
    const last = tokens.at(-1)
    if (word === '' && last !== undefined) last.mark = part
    if (word === '') return
    const sounds = soundsOf(word, wordAt(i - 1), wordAt(i + 1)).map((ipa) => ({ word, ipa, mark: '' }))
    if (last?.mark === '' && /^[ˈˌ]?[aeiouæɐɑɔəɚɛɜɪʊʌ]/u.test(sounds[0]?.ipa ?? '')) {
      last.ipa = BEFORE_VOWEL[last.word] ?? last.ipa
    }
    tokens.push(...sounds)
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

const endsClause = (tokens: readonly Token[], end: number): boolean => tokens[end - 1]!.mark !== ''

/** Whether a phrase ends before the token at `end`; two joining words ("in which") stay together. */
const endsPhrase = (tokens: readonly Token[], end: number): boolean =>
  PHRASE_STARTS.has(tokens[end]!.word) && !PHRASE_STARTS.has(tokens[end - 1]!.word)

/**
 * End of the next unit: all that is left, else after the last clause within `limit` symbols, else after the
 * last phrase, else after the first clause or phrase beyond the limit, at most `most` symbols.
 */
function unitEnd (tokens: readonly Token[], start: number, limit: number, most: number): number {
  const full = start + fitting(tokens, start, limit)
  if (full >= tokens.length) return tokens.length
  for (const ends of [endsClause, endsPhrase]) {
    for (let end = full; end > start && size(tokens, start, end) >= SHORT_CLAUSE; end--) {
      if (ends(tokens, end)) return end
    }
  }
  const last = start + fitting(tokens, start, most)
  for (let end = full + 1; end < last; end++) {
    if (endsClause(tokens, end) || endsPhrase(tokens, end)) return end
  }
  return last
}

/**
 * Converts English text to units of IPA, lazily, in constant memory and linear time. Text without words gives
 * no unit. Never throws. Skips letters of other scripts (`skippedScripts` in fold.ts names them).
 */
export function * prepareEnglish (text: string, sizes: UnitSizes): Generator<Unit, void, void> {
  const most = Math.max(MIN_SYMBOLS, sizes.maxSymbols)
  let limit = Math.max(MIN_SYMBOLS, Math.min(sizes.firstSymbols, most))
  for (const sentence of sentences(text)) {
    const tokens = tokenise(normaliseSentence(sentence))
    for (let start = 0; start < tokens.length;) {
      const end = unitEnd(tokens, start, limit, most)
      const phonemes = tokens.slice(start, end).map(({ ipa, mark }) => ipa + mark).join(' ')
      yield { phonemes, sentenceEnd: end === tokens.length }
      start = end
      limit = most
    }
  }
}

/** Loads the dictionary and the letter-to-sound model before the first word (about 50 ms). */
export function warmUp (): void {
  pronounce('warm')
  pronounce('zzyzxian')
}
