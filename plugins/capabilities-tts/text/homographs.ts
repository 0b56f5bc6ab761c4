import { phones } from './phones.js'

/** words that sound alike only on paper: as a noun or adjective, as a verb, and which of both when unsure */
const TABLE: ReadonlyArray<readonly [string, string, string, 'noun' | 'verb']> = [
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

const WORDS = new Map(TABLE.map(([word, noun, verb, usual]) =>
  [word, { noun: phones(noun), verb: phones(verb), usual }]))

const set = (words: string): Set<string> => new Set(words.split(' '))
const BEFORE_NOUN = set(
  'a an the this that these those my your his her its our their some any no each every of in with by ' +
  'new old good first last next one another very so too is was are were be more most for as on from')
const BEFORE_VERB = set(
  "to will would can could should must may might shall not don't didn't won't can't cannot i you " +
  "we they please who let's i'll you'll we'll they'll also always never often and did do does")
const PERFECT = set(
  "have has had was were been be is are having i've you've we've they've it's being get gets got")
/** what follows the adjective, not the verb */
const AFTER_ADJECTIVE = new Map(Object.entries({
  live: set('music show stream streams broadcast concert event performance demo video chat updates audience'),
  close: set('to by friend friends enough call range relative relatives')
}))

function readTense (before: string): number[] {
  return PERFECT.has(before) ? READ_THEN : READ_NOW
}

/**
 * Pronunciation of a word that has two, chosen by its neighbours (both lower case, empty at the ends of a
 * sentence); undefined for every other word. A small set of rules: it errs where grammar would be needed.
 */
export function homograph (word: string, before: string, after: string): number[] | undefined {
  if (word === 'read') return readTense(before)
  const entry = WORDS.get(word)
  if (!entry) return undefined
  if (AFTER_ADJECTIVE.get(word)?.has(after)) return entry.noun
  if (word === 'wound' && /^(?:up|down|around)$/.test(after)) return entry.verb
  if (BEFORE_VERB.has(before)) return entry.verb
  if (BEFORE_NOUN.has(before)) return entry.noun
  return entry[entry.usual]
}
