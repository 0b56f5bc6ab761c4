/**
 * Converts IPA from espeak or the English front end to Kokoro's symbols, by the tables of Kokoro's front end
 * misaki (hexgrad/misaki, `espeak.py` and `EN_PHONES.md`). espeak marks the letters of one sound with ties
 * for misaki, but not for piper-phonemize, so here two-letter rules also match letters of separate sounds.
 */

type Rule = readonly [RegExp, string]

/** Sound pairs that Kokoro writes as one symbol in every language. */
const LETTERS: readonly Rule[] = [
  [/dʒ/g, 'ʤ'], [/tʃ/g, 'ʧ'], [/aɪ/g, 'I'], [/aʊ/g, 'W'], [/eɪ/g, 'A'], [/ɔɪ/g, 'Y']
]

/** Removes espeak's marks that English does not use. A syllabic consonant gets a small schwa before it. */
const ENGLISH: readonly Rule[] = [
  [/ʔˌ?n\u0329/g, 'tn'], [/(\S)\u0329/g, 'ᵊ$1'], [/[\u0303ʲ]/g, ''],
  [/ɐ/g, 'ə'], [/r/g, 'ɹ'], [/[xç]/g, 'k'], [/ɬ/g, 'l'], [/ʔ/g, 't'], [/ɾ/g, 'T'],
  // Applies to the l in "little", not to that in "hello", which a vowel or stress mark follows.
  [/əl(?![ˈˌaeiouæɑɐɒəɚɛɜɪɔʊʌAIOQWYɹj])/g, 'ᵊl']
]

const AMERICAN: readonly Rule[] = [
  [/oʊ/g, 'O'], ...LETTERS, ...ENGLISH, [/ɚɹ?/g, 'əɹ'], [/ɜːɹ?/g, 'ɜɹ'], [/ɪə/g, 'iə'], [/e/g, 'A'],
  [/ː/g, ''], [/o/g, 'ɔ']
]
const BRITISH: readonly Rule[] = [
  [/əʊ/g, 'Q'], [/eə/g, 'ɛː'], ...LETTERS, ...ENGLISH, [/ɚ/g, 'ə'], [/iə/g, 'ɪə'], [/e/g, 'A'], [/o/g, 'ɔ'],
  [/æ/g, 'a']
]

/** Rules for other languages. Hyphens are espeak's liaison marks. */
const OTHERS: readonly Rule[] = [
  [/oʊ/g, 'O'], [/əʊ/g, 'Q'], ...LETTERS, [/dz/g, 'ʣ'], [/ts/g, 'ʦ'], [/-/g, '']
]

/** Rules by language code; Italian also has one symbol for a long s. */
const RULES: Readonly<Record<string, readonly Rule[]>> = {
  'en-us': AMERICAN,
  'en-gb': BRITISH,
  it: [...OTHERS, [/ss/g, 'S']],
  es: OTHERS, 'fr-fr': OTHERS, hi: OTHERS, 'pt-br': OTHERS
}

/** Converts a language's IPA to Kokoro's symbols; text in language `ipa` has Kokoro's symbols already. */
export function kokoroPhonemes (ipa: string, language: string): string {
  // Decompose, because Kokoro has two symbols for nasal vowels, but keep ç, for which it has one.
  const apart = ipa.normalize('NFD').replace(/c\u0327/g, 'ç').replaceAll('\u0361', '')
  const rules = Object.hasOwn(RULES, language) ? RULES[language]! : []
  return rules.reduce((text, [from, to]) => text.replace(from, to), apart)
}
