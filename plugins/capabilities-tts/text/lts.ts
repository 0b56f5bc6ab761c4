import { EXTRA } from './lexicon.js'
import { lookUp as lookUpDictionary } from './dictionary.js'
import { readLetters } from './lts-model.js'
import { bySuffix, withS } from './morphology.js'
import { phones } from './phones.js'

/** Longer words are no words: they are read in pieces, so that a unit of speech can end between them. */
export const MAX_WORD = 24

const CLITICS: ReadonlyArray<readonly [string, string]> = [
  ["n't", 'AH0 N T'], ["'ll", 'AH0 L'], ["'re", 'ER0'], ["'ve", 'V'], ["'d", 'D'], ["'m", 'M']
]

function lookUp (word: string): number[] | undefined {
  const extra = EXTRA.get(word)
  return extra === undefined ? lookUpDictionary(word) : phones(extra)
}

function plainWord (word: string): number[] {
  return lookUp(word) ?? bySuffix(word, lookUp) ?? readLetters(word)
}

function withApostrophe (word: string): number[] | undefined {
  const bare = word.replace(/^'+|'+$/g, '')
  if (bare !== word) return word.endsWith("s'") ? plainOrClitic(bare) : lookUp(bare) ?? plainOrClitic(bare)
  if (bare.endsWith("'s")) return withS(plainOrClitic(bare.slice(0, -2)))
  for (const [ending, sound] of CLITICS) {
    if (bare.endsWith(ending)) return [...plainOrClitic(bare.slice(0, -ending.length)), ...phones(sound)]
  }
  return undefined
}

function plainOrClitic (word: string): number[] {
  if (!word.includes("'")) return word === '' ? [] : plainWord(word)
  return lookUp(word) ?? withApostrophe(word) ?? plainWord(word.replaceAll("'", ''))
}

/**
 * Phone numbers of any lower-case word of a to z and apostrophes: dictionary, then derivation, then
 * letter-to-sound. A word longer than 24 letters gives several lists, one for each piece of 24.
 */
export function pronounce (word: string): number[][] {
  const whole = lookUp(word)
  if (whole) return [whole]
  if (word.length <= MAX_WORD) return [plainOrClitic(word)]
  const pieces: number[][] = []
  for (let at = 0; at < word.length; at += MAX_WORD) pieces.push(plainOrClitic(word.slice(at, at + MAX_WORD)))
  return pieces
}
