/**
 * Phones (ARPABET with stress, as in the CMU dictionary), numbered in the order of
 * `docs/recipes/letter-to-sound/phones.mjs`. Each has its IPA in the bundled voice's training data, with the
 * stress mark right before the vowel.
 */
const CONSONANTS: ReadonlyArray<readonly [string, string]> = [
  ['B', 'b'], ['CH', 'tʃ'], ['D', 'd'], ['DH', 'ð'], ['F', 'f'], ['G', 'ɡ'], ['HH', 'h'], ['JH', 'dʒ'],
  ['K', 'k'], ['L', 'l'], ['M', 'm'], ['N', 'n'], ['NG', 'ŋ'], ['P', 'p'], ['R', 'ɹ'], ['S', 's'],
  ['SH', 'ʃ'], ['T', 't'], ['TH', 'θ'], ['V', 'v'], ['W', 'w'], ['Y', 'j'], ['Z', 'z'], ['ZH', 'ʒ']
]

/** Vowels: ARPABET name, IPA with stress, IPA without stress. */
const VOWELS: ReadonlyArray<readonly [string, string, string]> = [
  ['AA', 'ɑː', 'ɑː'], ['AE', 'æ', 'æ'], ['AH', 'ʌ', 'ə'], ['AO', 'ɔː', 'ɔː'], ['AW', 'aʊ', 'aʊ'],
  ['AY', 'aɪ', 'aɪ'], ['EH', 'ɛ', 'ɛ'], ['ER', 'ɜː', 'ɚ'], ['EY', 'eɪ', 'eɪ'], ['IH', 'ɪ', 'ɪ'],
  ['IY', 'iː', 'i'], ['OW', 'oʊ', 'oʊ'], ['OY', 'ɔɪ', 'ɔɪ'], ['UH', 'ʊ', 'ʊ'], ['UW', 'uː', 'uː']
]

const FIRST_VOWEL = CONSONANTS.length + 1

const TABLE: ReadonlyArray<readonly [string, string]> = [
  ['', ''],
  ...CONSONANTS,
  ...VOWELS.flatMap(([name, strong, weak]) =>
    [[name + '0', weak], [name + '1', 'ˈ' + strong], [name + '2', 'ˌ' + strong]] as const)
]

export const ALL_IPA: ReadonlySet<string> = new Set(TABLE.flatMap(([, sound]) => [...sound]))

const CODES = new Map(TABLE.map(([name], code) => [name, code]))

/** Converts ARPABET such as "HH AH0 L OW1" to phone codes. @throws RangeError for an unknown phone */
export function phones (pronunciation: string): number[] {
  return pronunciation.split(' ').map((name) => {
    const code = CODES.get(name)
    if (!code) throw new RangeError(`"${name}" in "${pronunciation}" is not an ARPABET phone with stress`)
    return code
  })
}

export function ipa (codes: Iterable<number>): string {
  return Array.from(codes, (code) => TABLE[code]?.[1] ?? '').join('')
}

export function plainName (code: number | undefined): string {
  return (TABLE[code ?? 0]?.[0] ?? '').replace(/\d$/, '')
}

/** Whether a phone is a vowel with primary stress; each vowel has three codes, for stress 0, 1 and 2. */
export function isPrimary (code: number): boolean {
  return code >= FIRST_VOWEL && (code - FIRST_VOWEL) % 3 === 1
}
