// The phone inventory shared by the dictionary file and the letter-to-sound file: ARPABET with stress.

const VOWELS = ['AA', 'AE', 'AH', 'AO', 'AW', 'AY', 'EH', 'ER', 'EY', 'IH', 'IY', 'OW', 'OY', 'UH', 'UW']
const CONSONANTS = ['B', 'CH', 'D', 'DH', 'F', 'G', 'HH', 'JH', 'K', 'L', 'M', 'N', 'NG', 'P', 'R', 'S',
  'SH', 'T',
  'TH', 'V', 'W', 'Y', 'Z', 'ZH']

const stressed = VOWELS.flatMap((vowel) => [vowel + '0', vowel + '1', vowel + '2'])

/** Phone names in the order of their byte values; byte 0 is kept free as a terminator. */
export const PHONES = ['', ...CONSONANTS, ...stressed]

const CODE = new Map(PHONES.map((name, code) => [name, code]))

/** "HH AH0 L OW1 # note" -> phone codes; throws on a phone outside the inventory */
export function encode (pronunciation) {
  return pronunciation.replace(/ *#.*/, '').split(' ').map((name) => {
    const code = CODE.get(name)
    if (!code) throw new Error(`phone "${name}" in "${pronunciation}" is not in the inventory`)
    return code
  })
}

/** FNV-1a, 32 bits; selects the held-out words reproducibly, without a random generator */
export function hash (word) {
  let h = 0x811c9dc5
  for (let i = 0; i < word.length; i++) h = Math.imul(h ^ word.charCodeAt(i), 0x01000193) >>> 0
  return h
}

/** One word in twenty is excluded from the letter-to-sound training. */
export function isHeldOut (word) {
  return hash(word) % 20 === 0
}
