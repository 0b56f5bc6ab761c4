/** Pronounces a lower-case word: fixed words, homographs, dictionary, suffixes, letter-to-sound. */
import { lookUp as lookUpDictionary } from './dictionary.js'
import { readLetters } from './letter-to-sound.js'
import { ipa, phones, plainName } from './phones.js'

/** Unstressed function words, in IPA as in the bundled voice's training data. */
export const UNSTRESSED_WORDS: ReadonlyMap<string, string> = new Map(Object.entries({
  a: 'ɐ', an: 'ɐn', the: 'ðə', this: 'ðɪs', that: 'ðæt',
  of: 'ʌv', to: 'tə', in: 'ɪn', for: 'fɔːɹ', from: 'fɹʌm', at: 'æt', as: 'æz', on: 'ɔn', with: 'wɪð',
  by: 'baɪ', and: 'ænd', or: 'ɔːɹ', but: 'bʌt', so: 'sˌoʊ',
  is: 'ɪz', am: 'æm', are: 'ɑːɹ', was: 'wʌz', were: 'wɜː', has: 'hæz', have: 'hæv', can: 'kæn', could: 'kʊd',
  would: 'wʊd', i: 'aɪ', you: 'juː', he: 'hiː', she: 'ʃiː', it: 'ɪt', we: 'wiː', they: 'ðeɪ', me: 'miː',
  us: 'ʌs', them: 'ðɛm', my: 'maɪ', your: 'jʊɹ', her: 'hɜː'
}))

const set = (words: string): Set<string> => new Set(words.split(' '))

/** Words of UNSTRESSED_WORDS that are stressed at the end of a clause ("as soon as I can"). */
const STRESSED_LAST = set('in on by has have is am are was were can could would this that so')
/** Further function words, which lose their stress within a clause, entirely or to secondary stress. */
const LIGHT = set('be been his him if its will there their these those when what had than through')
const HALF_LIGHT = set('which where who how why shall should might not up down while any before over under ' +
  'about without between into within behind near across among')

/**
 * Words that the CMU dictionary lacks or transcribes unusually, in ARPABET: computing terms, and names that
 * are spelled as in Irish.
 */
const EXTRA: ReadonlyMap<string, string> = new Map(Object.entries({
  thirty: 'TH ER1 T IY0', punctuating: 'P AH1 NG K CH UW0 EY2 T IH0 NG', every: 'EH1 V R IY0',
  different: 'D IH1 F R AH0 N T', several: 'S EH1 V R AH0 L',
  aisling: 'AE1 SH L IH0 NG', aoife: 'IY1 F AH0', caoimhe: 'K W IY1 V AH0', ciara: 'K IH1 R AH0',
  ciaran: 'K IH1 R AH0 N', cillian: 'K IH1 L IY0 AH0 N', eilidh: 'EY1 L IY0', eoin: 'OW1 AH0 N',
  grainne: 'G R AO1 N Y AH0', maeve: 'M EY1 V', niamh: 'N IY1 V', oisin: 'AH0 SH IY1 N',
  padraig: 'P AO1 D R IH0 G', roisin: 'R OW0 SH IY1 N', saoirse: 'S IH1 R SH AH0', sinead: 'SH IH0 N EY1 D',
  siobhan: 'SH AH0 V AO1 N', tadhg: 'T AY1 G',
  ansible: 'AE1 N S AH0 B AH0 L', dir: 'D IH1 R', env: 'EH1 N V', gitlab: 'G IH1 T L AE2 B',
  jupyter: 'JH UW1 P IH0 T ER0', kubectl: 'K Y UW1 B K AH2 T AH0 L', mysql: 'M AY2 EH2 S K Y UW2 EH1 L',
  nginx: 'EH2 N JH IH0 N EH1 K S', numpy: 'N AH1 M P AY2', ollama: 'OW0 L AA1 M AH0',
  postgres: 'P OW1 S T G R EH2 S', pytorch: 'P AY1 T AO2 R CH', redis: 'R EH1 D IH0 S', scipy: 'S AY1 P AY2',
  sqlite: 'S IY1 K W AH0 L AY2 T', stderr: 'S T AE2 N D ER0 D EH1 R ER0', stdin: 'S T AE2 N D ER0 D IH1 N',
  stdout: 'S T AE2 N D ER0 D AW1 T', systemd: 'S IH2 S T AH0 M D IY1',
  aitch: 'EY1 CH', eff: 'EH1 F',
  ascii: 'AE1 S K IY0', async: 'EY1 S IH2 NG K', chatbot: 'CH AE1 T B AA2 T',
  config: 'K AH0 N F IH1 G', configs: 'K AH0 N F IH1 G Z', cuda: 'K UW1 D AH0', emoji: 'IH0 M OW1 JH IY0',
  frontend: 'F R AH1 N T EH2 N D', gif: 'G IH1 F', gui: 'G UW1 IY0', jpeg: 'JH EY1 P EH2 G',
  json: 'JH EY1 S AH0 N', kubernetes: 'K UW2 B ER0 N EH1 T IY0 Z', localhost: 'L OW1 K AH0 L HH OW2 S T',
  meme: 'M IY1 M', ok: 'OW1 K EY1', onnx: 'AA1 N IH0 K S',
  regex: 'R EH1 JH EH2 K S', repo: 'R IY1 P OW0', sudo: 'S UW1 D UW0', vram: 'V IY1 R AE2 M',
  wasm: 'W AA1 Z AH0 M', yaml: 'Y AE1 M AH0 L',
  wifi: 'W AY1 F AY2'
}))

/** Words with two pronunciations: the word, its noun or adjective form, its verb form, and the default. */
const HOMOGRAPHS: ReadonlyArray<readonly [string, string, string, 'noun' | 'verb']> = [
  ['record', 'R EH1 K ER0 D', 'R AH0 K AO1 R D', 'noun'],
  ['records', 'R EH1 K ER0 D Z', 'R AH0 K AO1 R D Z', 'noun'],
  ['use', 'Y UW1 S', 'Y UW1 Z', 'verb'],
  ['uses', 'Y UW1 S IH0 Z', 'Y UW1 Z IH0 Z', 'verb'],
  ['object', 'AA1 B JH EH0 K T', 'AH0 B JH EH1 K T', 'noun'],
  ['present', 'P R EH1 Z AH0 N T', 'P R IY0 Z EH1 N T', 'noun'],
  ['produce', 'P R OW1 D UW0 S', 'P R AH0 D UW1 S', 'verb'],
  ['refuse', 'R EH1 F Y UW2 Z', 'R AH0 F Y UW1 Z', 'verb'],
  ['content', 'K AA1 N T EH0 N T', 'K AH0 N T EH1 N T', 'noun'],
  ['project', 'P R AA1 JH EH0 K T', 'P R AH0 JH EH1 K T', 'noun'],
  ['subject', 'S AH1 B JH IH0 K T', 'S AH0 B JH EH1 K T', 'noun'],
  ['permit', 'P ER1 M IH2 T', 'P ER0 M IH1 T', 'verb'],
  ['progress', 'P R AA1 G R EH2 S', 'P R AH0 G R EH1 S', 'noun'],
  ['protest', 'P R OW1 T EH2 S T', 'P R AH0 T EH1 S T', 'noun'],
  ['rebel', 'R EH1 B AH0 L', 'R IH0 B EH1 L', 'noun'],
  ['conduct', 'K AA1 N D AH0 K T', 'K AA0 N D AH1 K T', 'noun'],
  ['conflict', 'K AA1 N F L IH0 K T', 'K AH0 N F L IH1 K T', 'noun'],
  ['contest', 'K AA1 N T EH0 S T', 'K AH0 N T EH1 S T', 'noun'],
  ['contract', 'K AA1 N T R AE2 K T', 'K AH0 N T R AE1 K T', 'noun'],
  ['convert', 'K AA1 N V ER0 T', 'K AH0 N V ER1 T', 'verb'],
  ['import', 'IH1 M P AO2 R T', 'IH2 M P AO1 R T', 'noun'],
  ['export', 'EH1 K S P AO0 R T', 'EH2 K S P AO1 R T', 'noun'],
  ['increase', 'IH1 N K R IY2 S', 'IH2 N K R IY1 S', 'verb'],
  ['insult', 'IH1 N S AH2 L T', 'IH2 N S AH1 L T', 'noun'],
  ['transport', 'T R AE1 N S P AO0 R T', 'T R AE0 N S P AO1 R T', 'noun'],
  ['suspect', 'S AH1 S P EH2 K T', 'S AH0 S P EH1 K T', 'verb'],
  ['excuse', 'IH0 K S K Y UW1 S', 'IH0 K S K Y UW1 Z', 'verb'],
  ['close', 'K L OW1 S', 'K L OW1 Z', 'verb'],
  ['live', 'L AY1 V', 'L IH1 V', 'verb'],
  ['lives', 'L AY1 V Z', 'L IH1 V Z', 'verb'],
  ['lead', 'L IY1 D', 'L IY1 D', 'noun'],
  ['wind', 'W IH1 N D', 'W AY1 N D', 'noun'],
  ['tear', 'T IH1 R', 'T EH1 R', 'noun'],
  ['wound', 'W UW1 N D', 'W AW1 N D', 'noun'],
  ['desert', 'D EH1 Z ER0 T', 'D IH0 Z ER1 T', 'noun'],
  ['separate', 'S EH1 P ER0 IH0 T', 'S EH1 P ER0 EY2 T', 'noun'],
  ['estimate', 'EH1 S T AH0 M AH0 T', 'EH1 S T AH0 M EY2 T', 'noun'],
  ['graduate', 'G R AE1 JH AH0 W AH0 T', 'G R AE1 JH AH0 W EY2 T', 'noun'],
  ['perfect', 'P ER1 F IH2 K T', 'P ER0 F EH1 K T', 'noun'],
  ['attribute', 'AE1 T R AH0 B Y UW2 T', 'AH0 T R IH1 B Y UW2 T', 'noun'],
  ['address', 'AE1 D R EH2 S', 'AH0 D R EH1 S', 'noun']
]

const READ_NOW = phones('R IY1 D')
const READ_THEN = phones('R EH1 D')

const BY_USE = new Map(HOMOGRAPHS.map(([word, noun, verb, usual]) =>
  [word, { noun: phones(noun), verb: phones(verb), usual }]))

const BEFORE_NOUN = set(
  'a an the this that these those my your his her its our their some any no each every of in with by ' +
  'new old good first last next one another very so too is was are were be more most for as on from')
const BEFORE_VERB = set(
  "to will would can could should must may might shall not don't didn't won't can't cannot i you " +
  "we they please who let's i'll you'll we'll they'll also always never often and did do does")
const PERFECT = set(
  "have has had was were been be is are having i've you've we've they've it's being get gets got")
/** Words that may follow a homograph as an adjective ("live music") but not as a verb. */
const AFTER_ADJECTIVE = new Map(Object.entries({
  live: set('music show stream streams broadcast concert event performance demo video chat updates audience'),
  close: set('to by friend friends enough call range relative relatives')
}))

/**
 * Guesses a homograph's pronunciation from the words beside it (lower case, '' at sentence ends); undefined
 * for other words. The rules are simple and miss cases that need grammar.
 */
export function homograph (word: string, before: string, after: string): number[] | undefined {
  if (word === 'read') return PERFECT.has(before) ? READ_THEN : READ_NOW
  const entry = BY_USE.get(word)
  if (!entry) return undefined
  if (AFTER_ADJECTIVE.get(word)?.has(after)) return entry.noun
  if (word === 'wound' && /^(?:up|down|around)$/.test(after)) return entry.verb
  if (BEFORE_VERB.has(before)) return entry.verb
  if (BEFORE_NOUN.has(before)) return entry.noun
  return entry[entry.usual]
}

const SIBILANTS = new Set(['S', 'Z', 'SH', 'ZH', 'CH', 'JH'])
const VOICELESS = new Set(['P', 'T', 'K', 'F', 'TH'])

const soundOfS = (last: string): string => SIBILANTS.has(last) ? 'IH0 Z' : VOICELESS.has(last) ? 'S' : 'Z'

function soundOfEd (last: string): string {
  if (last === 'T' || last === 'D') return 'IH0 D'
  return VOICELESS.has(last) || ['S', 'SH', 'CH'].includes(last) ? 'T' : 'D'
}

const soundOfLy = (last: string): string => last === 'L' ? 'IY0' : 'L IY0'

type Sound = string | ((last: string) => string)

const append = (base: number[], sound: Sound): number[] =>
  [...base, ...phones(typeof sound === 'string' ? sound : sound(plainName(base.at(-1))))]

/**
 * Each ending has its text, the replacements that restore a dictionary word (preferred ones first), whether
 * the stem's last consonant may be doubled (stopped), and its sound. Lists only endings that beat
 * letter-to-sound on held-out words (docs/recipes/letter-to-sound/evaluate-lts.mjs --derive). -ing, -er,
 * -able, -est, prefixes and splits into two known words are left out: they are right for 46% of words,
 * letter-to-sound for 75%, because the dictionary has many short surnames.
 */
const SUFFIXES: ReadonlyArray<readonly [string, readonly string[], boolean, Sound]> = [
  ['ies', ['y'], false, soundOfS], ['es', ['e', ''], false, soundOfS], ['s', [''], false, soundOfS],
  ['ied', ['y'], false, soundOfEd], ['ed', ['', 'e'], true, soundOfEd],
  ['ings', ['', 'e'], true, 'IH0 NG Z'], ['ers', ['', 'e'], true, 'ER0 Z'], ['ly', [''], false, soundOfLy],
  ['ness', [''], false, 'N AH0 S'], ['less', [''], false, 'L AH0 S'], ['ful', [''], false, 'F AH0 L'],
  ['ment', [''], false, 'M AH0 N T'], ['ship', [''], false, 'SH IH2 P']
]

/** Shortest stem in letters; shorter ones match mostly by chance. */
const MIN_STEM = 3

function stems (cut: string, usual: readonly string[], doubling: boolean): string[] {
  const lostE = /[^aeiou][aeiouy][^aeiouwxy]$/.test(cut)
  const instead = doubling && lostE ? [...usual].reverse() : usual
  const doubled = doubling && cut.length > MIN_STEM && /([^aeiou])\1$/.test(cut)
  return [...instead.map((tail) => cut + tail), ...(doubled ? [cut.slice(0, -1)] : [])]
}

/** The pronunciation of a stem known to `lookUp` and a suffix ("routers", "kludged"), or undefined. */
export function bySuffix (
  word: string, lookUp: (word: string) => number[] | undefined
): number[] | undefined {
  for (const [ending, instead, doubling, sound] of SUFFIXES) {
    if (!word.endsWith(ending) || word.length - ending.length < MIN_STEM) continue
    if (ending === 's' && /(ss|us|is)$/.test(word)) continue
    for (const stem of stems(word.slice(0, -ending.length), instead, doubling)) {
      const base = lookUp(stem)
      if (base && stem.length >= MIN_STEM) return append(base, sound)
    }
  }
  return undefined
}

/** Maximum letters read at once; longer words are read in pieces, so that a unit can end between pieces. */
const MAX_WORD = 24

const CLITICS: ReadonlyArray<readonly [string, Sound]> = [
  ["'s", soundOfS], ["n't", 'AH0 N T'], ["'ll", 'AH0 L'], ["'re", 'ER0'], ["'ve", 'V'], ["'d", 'D'],
  ["'m", 'M']
]

/** The pronunciation of a known word as phone codes, or undefined. */
export function lookUp (word: string): number[] | undefined {
  const extra = EXTRA.get(word)
  return extra === undefined ? lookUpDictionary(word) : phones(extra)
}

const plainWord = (word: string): number[] => lookUp(word) ?? bySuffix(word, lookUp) ?? readLetters(word)

function withApostrophe (word: string): number[] | undefined {
  const bare = word.replace(/^'+|(?<!')'+$/g, '')
  if (bare !== word) return word.endsWith("s'") ? plainOrClitic(bare) : lookUp(bare) ?? plainOrClitic(bare)
  for (const [ending, sound] of CLITICS) {
    if (bare.endsWith(ending)) return append(plainOrClitic(bare.slice(0, -ending.length)), sound)
  }
  return undefined
}

function plainOrClitic (word: string): number[] {
  if (!word.includes("'")) return word === '' ? [] : plainWord(word)
  return lookUp(word) ?? withApostrophe(word) ?? plainWord(word.replaceAll("'", ''))
}

/** Phone codes for a lower-case word (a to z and apostrophes), one list per MAX_WORD letters. */
export function pronounce (word: string): number[][] {
  const whole = lookUp(word)
  if (whole) return [whole]
  const pieces = word.match(new RegExp(`.{1,${MAX_WORD}}`, 'g')) ?? ['']
  return pieces.map(plainOrClitic)
}

/**
 * IPA for a word between `before` and `after`, which are '' at the ends of a clause (see `homograph`); a long
 * word gives several parts.
 */
export function soundsOf (word: string, before: string, after: string): string[] {
  const last = after === ''
  const fixed = UNSTRESSED_WORDS.get(word)
  if (fixed !== undefined) {
    return [last && STRESSED_LAST.has(word) ? fixed.replace(/ˌ?(?=[aæoɑɔɜɪʊʌ])/, 'ˈ') : fixed]
  }
  const codes = homograph(word, before, after)
  const sounds = (codes ? [codes] : pronounce(word)).map(ipa).filter((sound) => sound !== '')
  if (last || !(LIGHT.has(word) || HALF_LIGHT.has(word))) return sounds
  return sounds.map((sound) => sound.replace('ˈ', LIGHT.has(word) ? '' : 'ˌ'))
}
