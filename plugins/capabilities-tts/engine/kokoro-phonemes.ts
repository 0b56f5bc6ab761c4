/**
 * From the IPA of espeak, or of the English front end here, to Kokoro's symbols. The tables are those of
 * misaki (hexgrad/misaki, `espeak.py` and `EN_PHONES.md`), Kokoro's front end. It asks espeak for ties
 * between the letters of one sound; piper-phonemize has none, so a rule for two letters applies to any such
 * pair.
 */

type Rule = readonly [RegExp, string]

/** Sounds with a separate letter, in every language. */
const LETTERS: readonly Rule[] = [
  [/dʒ/g, 'ʤ'], [/tʃ/g, 'ʧ'], [/aɪ/g, 'I'], [/aʊ/g, 'W'], [/eɪ/g, 'A'], [/ɔɪ/g, 'Y']
]

/** What espeak writes that English has no use for. A syllabic consonant gets the small schwa before it. */
const ENGLISH: readonly Rule[] = [
  [/ʔˌ?n\u0329/g, 'tn'], [/(\S)\u0329/g, 'ᵊ$1'], [/[\u0303ʲ]/g, ''],
  [/ɐ/g, 'ə'], [/r/g, 'ɹ'], [/[xç]/g, 'k'], [/ɬ/g, 'l'], [/ʔ/g, 't'], [/ɾ/g, 'T'],
  // The l of "little", not of "hello": a vowel or its stress mark follows there.
  [/əl(?![ˈˌaeiouæɑɐɒəɚɛɜɪɔʊʌAIOQWYɹj])/g, 'ᵊl']
]

const AMERICAN: readonly Rule[] = [
  [/oʊ/g, 'O'], ...LETTERS, ...ENGLISH, [/ɚ/g, 'əɹ'], [/ɜːɹ?/g, 'ɜɹ'], [/ɪə/g, 'iə'], [/e/g, 'A'],
  [/ː/g, ''], [/o/g, 'ɔ']
]
const BRITISH: readonly Rule[] = [
  [/əʊ/g, 'Q'], [/eə/g, 'ɛː'], ...LETTERS, ...ENGLISH, [/ɚ/g, 'ə'], [/iə/g, 'ɪə'], [/e/g, 'A'], [/o/g, 'ɔ'],
  [/æ/g, 'a']
]

/** Hyphens are espeak's marks for liaison; ties and everything else stay as espeak has it. */
const OTHERS: readonly Rule[] = [
  [/oʊ/g, 'O'], [/əʊ/g, 'Q'], ...LETTERS, [/dz/g, 'ʣ'], [/ts/g, 'ʦ'], [/-/g, '']
]

/** Rules by language; espeak writes the long s of Italian as one sound. */
const RULES: Readonly<Record<string, readonly Rule[]>> = {
  'en-us': AMERICAN,
  'en-gb': BRITISH,
  it: [...OTHERS, [/ss/g, 'S']],
  es: OTHERS, 'fr-fr': OTHERS, hi: OTHERS, 'pt-br': OTHERS
}

/** IPA of a language as Kokoro's symbols; phonemes that were sent as such (`ipa`) stay as they are. */
export function kokoroPhonemes (ipa: string, language: string): string {
  // Nasal vowels are two symbols to Kokoro, ç is one.
  const apart = ipa.normalize('NFD').replace(/c\u0327/g, 'ç').replaceAll('\u0361', '')
  const rules = Object.hasOwn(RULES, language) ? RULES[language]! : []
  return rules.reduce((text, [from, to]) => text.replace(from, to), apart)
}
