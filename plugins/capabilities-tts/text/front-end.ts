import { homograph } from './homographs.js'
import { WEAK } from './lexicon.js'
import { MAX_WORD, pronounce } from './lts.js'
import { normaliseSentence } from './normalise.js'
import { ipa as toIpa } from './phones.js'
import { skippedScripts } from './scripts.js'
import { sentences } from './sentences.js'

/** A piece of text that is synthesised at once. */
export interface Unit {
  /** the words as spoken, lower case, numbers written out, with their marks */
  text: string
  /** IPA with the marks , . ; : ? ! in the symbols of the embedded voice and of Piper's English voices */
  phonemes: string
  /** the unit ends a sentence: a pause fits behind it */
  sentenceEnd: boolean
  /** nothing follows */
  final: boolean
}

export interface PrepareOptions {
  /** most IPA characters in a unit, at least 40 */
  maxSymbols: number
  /** most IPA characters in the first unit, for an early first sound; at least 40 */
  firstSymbols: number
}

interface Token {
  text: string
  ipa: string
  /** the mark behind the word, if any */
  mark: string
}

const MIN_SYMBOLS = 40
/** a first clause shorter than this is joined with the next: "So," alone sounds cut off */
const SHORT_CLAUSE = 12
/** a break before these is heard least */
const BREAK_BEFORE = new Set([
  'and', 'or', 'but', 'that', 'which', 'who', 'because', 'if', 'when', 'while', 'where', 'in',
  'on', 'at', 'to', 'for', 'with', 'from', 'by', 'of', 'as'])

function wordIpa (word: string, before: string, after: string): string[] {
  const fixed = WEAK.get(word)
  if (fixed !== undefined) return [fixed]
  const codes = homograph(word, before, after)
  return (codes ? [codes] : pronounce(word)).map(toIpa)
}

/** the letters of the k-th sound of a word that is read in pieces */
function piece (word: string, k: number, count: number): string {
  return count === 1 ? word : word.slice(k * MAX_WORD, (k + 1) * MAX_WORD)
}

/** words and marks of a normalised sentence */
function tokenise (normalised: string): Token[] {
  const parts = normalised.toLowerCase().match(/[a-z']+|[,.;:?!]/g) ?? []
  const word = (part: string | undefined): string => part !== undefined && /[a-z]/.test(part) ? part : ''
  const tokens: Token[] = []
  parts.forEach((part, i) => {
    if (word(part) === '') {
      const last = tokens.at(-1)
      if (last) last.mark = part
      return
    }
    const sounds = wordIpa(part, word(parts[i - 1]), word(parts[i + 1])).filter((sound) => sound !== '')
    sounds.forEach((ipa, k) => tokens.push({ text: piece(part, k, sounds.length), ipa, mark: '' }))
  })
  return tokens
}

/** how many tokens from `start` fit into `limit` characters; at least one */
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

/** end of the next unit: the whole rest, else the last clause, else before a joining word, else anywhere */
function unitEnd (tokens: readonly Token[], start: number, limit: number): number {
  const full = start + fitting(tokens, start, limit)
  if (full >= tokens.length) return tokens.length
  for (let end = full; end > start; end--) {
    if (tokens[end - 1]!.mark !== '' && size(tokens, start, end) >= SHORT_CLAUSE) return end
  }
  for (let end = full; end > start + (full - start) / 2; end--) {
    if (BREAK_BEFORE.has(tokens[end]!.text)) return end
  }
  return full
}

function toUnit (tokens: readonly Token[], sentenceEnd: boolean): Unit {
  const text = tokens.map((each) => each.text + each.mark).join(' ')
  const phonemes = tokens.map((each) => each.ipa + each.mark).join(' ')
  return { text, phonemes, sentenceEnd, final: false }
}

function * units (text: string, options: PrepareOptions): Generator<Unit> {
  let limit = Math.max(MIN_SYMBOLS, Math.min(options.firstSymbols, options.maxSymbols))
  for (const sentence of sentences(text)) {
    const tokens = tokenise(normaliseSentence(sentence))
    for (let start = 0; start < tokens.length;) {
      const end = unitEnd(tokens, start, limit)
      yield toUnit(tokens.slice(start, end), end === tokens.length)
      start = end
      limit = Math.max(MIN_SYMBOLS, options.maxSymbols)
    }
  }
}

/**
 * English text to units of IPA, lazily: each unit is computed when it is asked for (one ahead, to know the
 * last), memory does not grow with the text, time is linear in it. Text without anything to speak gives no
 * unit. Never throws on any string. Letters of scripts that English cannot read are skipped; `inspect` names
 * them.
 */
export function * prepareEnglish (text: string, options: PrepareOptions): Generator<Unit, void, void> {
  let held: Unit | undefined
  for (const unit of units(text, options)) {
    if (held) yield held
    held = unit
  }
  if (held) yield { ...held, final: true }
}

export interface Inspection {
  /** there is at least one word to speak */
  speakable: boolean
  /** Unicode names of scripts whose letters are skipped: ["Han", "Cyrillic"] */
  skippedScripts: string[]
}

/** A cheap check before any audio: a few milliseconds for 100,000 characters. */
export function inspect (text: string): Inspection {
  const first = units(text, { maxSymbols: MIN_SYMBOLS, firstSymbols: MIN_SYMBOLS }).next()
  return { speakable: first.done !== true, skippedScripts: skippedScripts(text) }
}

/** Reads the dictionary and the letter-to-sound model now instead of at the first word (about 50 ms). */
export function warmUp (): void {
  pronounce('warm')
  pronounce('zzyzxian')
}
