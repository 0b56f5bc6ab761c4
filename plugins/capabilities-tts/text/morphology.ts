import { phones, plainName } from './phones.js'

/** pronunciation of a known word, or undefined */
export type LookUp = (word: string) => number[] | undefined

const SIBILANTS = new Set(['S', 'Z', 'SH', 'ZH', 'CH', 'JH'])
const VOICELESS = new Set(['P', 'T', 'K', 'F', 'TH'])

/** the sound of a plural or possessive s after these phones */
export function withS (base: number[]): number[] {
  const last = plainName(base.at(-1))
  if (SIBILANTS.has(last)) return [...base, ...phones('IH0 Z')]
  return [...base, ...phones(VOICELESS.has(last) ? 'S' : 'Z')]
}

/** the sound of a past tense -ed after these phones */
export function withEd (base: number[]): number[] {
  const last = plainName(base.at(-1))
  if (last === 'T' || last === 'D') return [...base, ...phones('IH0 D')]
  return [...base, ...phones(VOICELESS.has(last) || ['S', 'SH', 'CH'].includes(last) ? 'T' : 'D')]
}

const append = (tail: string) => (base: number[]): number[] => [...base, ...phones(tail)]

function withLy (base: number[]): number[] {
  return [...base, ...phones(plainName(base.at(-1)) === 'L' ? 'IY0' : 'L IY0')]
}

interface Suffix {
  readonly ending: string
  /** what may stand in the dictionary in place of the ending, by preference */
  readonly instead: readonly string[]
  /** the last letter of the stem may be a doubled consonant (running, stopped) */
  readonly doubling: boolean
  readonly sound: (base: number[]) => number[]
}

const suffix = (ending: string, instead: string[], doubling: boolean, sound: Suffix['sound']): Suffix =>
  ({ ending, instead, doubling, sound })

/**
 * Only endings where a known stem beats letter-to-sound on held-out words
 * (docs/recipes/letter-to-sound/evaluate-lts.mjs --derive).
 * Missing on purpose: -ing, -er, -able, -est, prefixes, and splitting into two known words (right for 46 % of
 * the words that can be split, against 75 % by letter-to-sound: the dictionary is full of short surnames).
 */
const SUFFIXES: readonly Suffix[] = [
  suffix('ies', ['y'], false, withS), suffix('es', ['e', ''], false, withS), suffix('s', [''], false, withS),
  suffix('ied', ['y'], false, withEd), suffix('ed', ['', 'e'], true, withEd),
  suffix('ings', ['', 'e'], true, append('IH0 NG Z')), suffix('ers', ['', 'e'], true, append('ER0 Z')),
  suffix('ly', [''], false, withLy), suffix('ness', [''], false, append('N AH0 S')),
  suffix('less', [''], false, append('L AH0 S')), suffix('ful', [''], false, append('F AH0 L')),
  suffix('ment', [''], false, append('M AH0 N T')), suffix('ship', [''], false, append('SH IH2 P'))
]

/** stems shorter than this are more often chance than meaning */
const MIN_STEM = 3

function stems (word: string, { ending, instead: usual, doubling }: Suffix): string[] {
  const cut = word.slice(0, -ending.length)
  const lostE = /[^aeiou][aeiouy][^aeiouwxy]$/.test(cut)
  const instead = doubling && lostE ? [...usual].reverse() : usual
  const doubled = doubling && cut.length > MIN_STEM && /([^aeiou])\1$/.test(cut)
  return [...instead.map((tail) => cut + tail), ...(doubled ? [cut.slice(0, -1)] : [])]
}

/** The word as a known stem and a suffix: "routers", "kludged". */
export function bySuffix (word: string, lookUp: LookUp): number[] | undefined {
  for (const each of SUFFIXES) {
    if (!word.endsWith(each.ending) || word.length - each.ending.length < MIN_STEM) continue
    if (each.ending === 's' && /(ss|us|is)$/.test(word)) continue
    for (const stem of stems(word, each)) {
      const base = lookUp(stem)
      if (base && stem.length >= MIN_STEM) return each.sound(base)
    }
  }
  return undefined
}
