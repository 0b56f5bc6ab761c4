/**
 * Converts the front end's IPA to espeak's notation of two English accents, on which most public voices were
 * trained. The dictionary is American, so the vowels of "lot" and "palm" are uncertain.
 */

type Rule = readonly [RegExp, string]

const VOWEL = 'aeiouæɐɑɒəɚɛɜɪɔʊʌ'

const apply = (rules: readonly Rule[], ipa: string): string =>
  rules.reduce((text, [from, to]) => text.replace(from, to), ipa)

/** headed, boxes: the vowel of an ending, which is inconsistent in the dictionary. */
const ENDINGS: readonly Rule[] = [
  [/(?<=[tdɾ])[əɪ](?=d(?![\p{L}ˈˌ]))/gu, 'ɪ'], [/(?<=[szʃʒ])[əɪ](?=z(?![\p{L}ˈˌ]))/gu, 'ɪ']
]

const AMERICAN: readonly Rule[] = [
  // button, mountain: a stop and a syllabic n
  [new RegExp(`(?<=[${VOWEL}n]ː?)t[əɪ]n(?![${VOWEL}ˈˌ])`, 'g'), 'ʔn\u0329'],
  // water, city, party: a tap between vowels, the second one without stress
  [new RegExp(`(?<=[${VOWEL}ɹ]ː?)t(?=[${VOWEL}])`, 'g'), 'ɾ'],
  // zero, here
  [/ɪɹ(?=[oə])/g, 'iəɹ'],
  ...ENDINGS.map(([ending]): Rule => [ending, 'ᵻ'])
]

/** General American as espeak's `en-us`. */
export const american = (ipa: string): string => apply(AMERICAN, ipa)

const BRITISH: readonly Rule[] = [
  ...ENDINGS,
  [/oʊ/g, 'əʊ'],
  // of, from, was: strong forms, which the dictionary has with the vowel of "cup"
  [/(?<![\p{L}ˈˌ])(fɹ|w|)ʌ(m|z|v)(?![\p{L}ˈˌ])/gu, '$1ɒ$2'],
  // lot, father: nearly all words with this vowel and no r have that of "lot"
  [/ɑː(?!ɹ)/g, 'ɒ'], [/ɔ(?![ːɪ])/g, 'ɒ'],
  // near, square, cure: an r without a following vowel is silent
  [new RegExp(`ɪɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), 'iə'], [new RegExp(`ɛɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), 'eə'],
  [new RegExp(`ʊɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), 'ʊə'],
  [new RegExp(`(?<=[ɑɔɜ]ː)ɹ(?!ˈ?ˌ?[${VOWEL}])`, 'g'), ''],
  // over: at the end of a word the vowel is more open than in "hours"
  [new RegExp(`ɚ(?=[${VOWEL}ˈˌ])`, 'g'), 'əɹ'], [/ɚ(?!\p{L})/gu, 'ɐ'], [/ɚ/g, 'ə'],
  // happy
  [/i(?![ːə])/g, 'ɪ']
]

/** Southern British English as espeak's `en-gb-x-rp`, without silent r. */
export const british = (ipa: string): string => apply(BRITISH, ipa)
