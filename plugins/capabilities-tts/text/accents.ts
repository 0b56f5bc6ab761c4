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
  // "button", "mountain", not "sentence": t becomes a glottal stop before a syllabic n
  [new RegExp(`(?<=[${VOWEL}]ː?)t[əɪ]n(?![${VOWEL}ˈˌ])|(?<=n)t[əɪ]n(?!\\p{L})`, 'gu'), 'ʔn\u0329'],
  // "water", "city", "party": t becomes a tap before an unstressed vowel
  [new RegExp(`(?<=[${VOWEL}ɹ]ː?)t(?=[${VOWEL}])`, 'g'), 'ɾ'],
  // "it is", "at a": t becomes a tap between words without stress
  [new RegExp(`(?<![\\p{L}ˈˌ])([æɪ])t(?= [${VOWEL}])`, 'gu'), '$1ɾ'],
  // "memory", "hurry", "after all": r is spoken before a vowel
  [new RegExp(`(ɚ|ɜː)(?= ?[ˈˌ]?[${VOWEL}])`, 'g'), '$1ɹ'],
  // "zero": the vowel before r becomes a diphthong if o or a schwa follows
  [/ɪɹ(?=[oə])/g, 'iəɹ'],
  // "remove", "before"; "until"; "again": weak vowels at the start of a word
  [new RegExp(`(?<![\\p{L}ˈˌ])([bdɹ])[əɪi](?=[^${VOWEL}ːˈˌ ]{1,3}[ˈˌ])`, 'gu'), '$1ᵻ'],
  [new RegExp(`(?<![\\p{L}ˈˌ])ən(?=[^${VOWEL}ˈˌ ])`, 'gu'), 'ʌn'], [/(?<![\p{L}ˈˌ])ə(?=\p{L})/gu, 'ɐ'],
  // "lost", "long", "off": a short vowel
  [/ɔː(?=[fsŋɡθ])/g, 'ɔ'],
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
  // "near", "square", "cure": r is silent unless a vowel follows, also that of the next word
  [new RegExp(`ɪɹ(?! ?ˈ?ˌ?[${VOWEL}])`, 'g'), 'iə'], [new RegExp(`ɛɹ(?! ?ˈ?ˌ?[${VOWEL}])`, 'g'), 'eə'],
  [new RegExp(`ʊɹ(?! ?ˈ?ˌ?[${VOWEL}])`, 'g'), 'ʊə'],
  [new RegExp(`(?<=[ɑɔ]ː)ɹ(?! ?ˈ?ˌ?[${VOWEL}])`, 'g'), ''],
  // "memory", "hurry", "after all": r is spoken before a vowel
  [new RegExp(`ɜː(?= ?[ˈˌ]?[${VOWEL}])`, 'g'), 'ɜːɹ'], [new RegExp(`ɚ(?= ?[ˈˌ]?[${VOWEL}])`, 'g'), 'əɹ'],
  // "over": the vowel is more open at the end of a word than inside ("hours")
  [/ɚ(?!\p{L})/gu, 'ɐ'], [/ɚ/g, 'ə'],
  // "happy": a short final vowel
  [/i(?![ːə])/g, 'ɪ']
]

/** Southern British English as espeak's `en-gb-x-rp`, without silent r. */
export const british = (ipa: string): string => apply(BRITISH, ipa)
