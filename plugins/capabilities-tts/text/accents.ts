/**
 * Converts the front end's IPA to espeak's notation of two English accents, on which most public voices were
 * trained. The dictionary is American, so the vowels of "lot" and "palm" are uncertain.
 */

type Rule = readonly [RegExp, string]

const VOWEL = 'aeiouæɐɑɒəɚɛɜɪɔʊʌ'

const apply = (rules: readonly Rule[], ipa: string): string =>
  rules.reduce((text, [from, to]) => text.replace(from, to), ipa)

/** Unifies the vowel in endings ("headed", "boxes"), which is inconsistent in the dictionary. */
const ENDINGS: readonly Rule[] = [
  [/(?<=[tdɾ])[əɪ](?=d(?![\p{L}ˈˌ]))/gu, 'ɪ'], [/(?<=[szʃʒ])[əɪ](?=z(?![\p{L}ˈˌ]))/gu, 'ɪ']
]

const AMERICAN: readonly Rule[] = [
  // "button", "mountain": t becomes a glottal stop before a syllabic n
  [new RegExp(`(?<=[${VOWEL}n]ː?)t[əɪ]n(?![${VOWEL}ˈˌ])`, 'g'), 'ʔn\u0329'],
  // "water", "city", "party": t becomes a tap before an unstressed vowel
  [new RegExp(`(?<=[${VOWEL}ɹ]ː?)t(?=[${VOWEL}])`, 'g'), 'ɾ'],
  // "zero": the vowel before r becomes a diphthong if o or a schwa follows
  [/ɪɹ(?=[oə])/g, 'iəɹ'],
  ...ENDINGS.map(([ending]): Rule => [ending, 'ᵻ'])
]

/** General American as espeak's `en-us`. */
export const american = (ipa: string): string => apply(AMERICAN, ipa)

const BRITISH: readonly Rule[] = [
  ...ENDINGS,
  [/oʊ/g, 'əʊ'],
  // "of", "from", "was": the dictionary gives their strong forms the vowel in "cup"
  [/(?<![\p{L}ˈˌ])(fɹ|w|)ʌ(m|z|v)(?![\p{L}ˈˌ])/gu, '$1ɒ$2'],
  // "lot": the dictionary does not separate this vowel from that in "palm", which is rarer without r
  [/ɑː(?!ɹ)/g, 'ɒ'], [/ɔ(?![ːɪ])/g, 'ɒ'],
  // "near", "square", "cure": r is silent unless a vowel follows
  [new RegExp(`ɪɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), 'iə'], [new RegExp(`ɛɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), 'eə'],
  [new RegExp(`ʊɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), 'ʊə'],
  [new RegExp(`(?<=[ɑɔɜ]ː)ɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), ''],
  // "over": the vowel is more open at the end of a word than inside ("hours")
  [new RegExp(`ɚ(?=[${VOWEL}ˈˌ])`, 'g'), 'əɹ'], [/ɚ(?!\p{L})/gu, 'ɐ'], [/ɚ/g, 'ə'],
  // "happy": a short final vowel
  [/i(?![ːə])/g, 'ɪ']
]

/** Southern British English as espeak's `en-gb-x-rp`, without silent r. */
export const british = (ipa: string): string => apply(BRITISH, ipa)
