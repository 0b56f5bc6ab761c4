import { readFileSync } from 'node:fs'
import t from 'tap'
import { dictionary } from 'cmu-pronouncing-dictionary'
import { lookUp, readData } from '../text/dictionary.js'
import { readLetters } from '../text/letter-to-sound.js'
import { prepareEnglish } from '../text/front-end.js'
import { ipa, phones } from '../text/phones.js'
import { homograph, pronounce, UNSTRESSED_WORDS } from '../text/pronounce.js'

const { PHONES } = await import(
  new URL('../../../docs/recipes/letter-to-sound/phones.mjs', import.meta.url).href
) as { PHONES: readonly string[] }
/** Converts phone codes to ARPABET by the table in docs/recipes/letter-to-sound. */
const arpabet = (codes: readonly number[]): string => codes.map((code) => PHONES[code] ?? '?').join(' ')

function check (word: string, expected: string): void {
  t.equal(pronounce(word).map(arpabet).join(' | '), expected, word)
}

t.test('the shipped dictionary is the one of the npm package', async (t) => {
  const script = new URL('../../../docs/recipes/letter-to-sound/build-dictionary.mjs', import.meta.url).href
  const { pack } = await import(script) as { pack: (entries: Record<string, string>) => Buffer }
  t.ok(pack(dictionary).equals(readData('dictionary.bin')), 'else run build-dictionary.mjs of the recipe')
})

t.test('every word of the dictionary is found, others are not', async (t) => {
  let wrong = 0
  const words = Object.keys(dictionary).filter((word) => /^[a-z']+$/.test(word))
  for (const word of words) {
    if (arpabet(lookUp(word) ?? []) !== dictionary[word]!.replace(/ *#.*/, '')) wrong++
  }
  t.equal(wrong, 0)
  t.ok(words.length > 120_000)
  for (const word of ['', 'zzzzzzz', 'aaaaaaa', "'", 'hellox', '~',
    'é']) t.equal(lookUp(word), undefined, word)
})

t.test('IPA as the voice was trained on', async (t) => {
  t.equal(ipa(phones('HH AH0 L OW1')), 'həlˈoʊ')
  t.equal(ipa(phones('W ER1 L D')), 'wˈɜːld')
  t.equal(ipa(phones('AE2 K N AA1 L IH0 JH ER0 IY0')), 'ˌæknˈɑːlɪdʒɚi')
  t.equal(ipa(phones('CH OY1 ZH UW0 NG TH')), 'tʃˈɔɪʒuːŋθ')
  const recipe = readFileSync(new URL('../../../docs/recipes/voice-en/frontend.mjs', import.meta.url), 'utf8')
  const weak = /const WEAK = {(.*)}/.exec(recipe)?.[1] ?? ''
  t.same(new Map(Array.from(weak.matchAll(/(\w+): "([^"]+)"/g), ([, word, ipa]) => [word, ipa])),
    UNSTRESSED_WORDS)
  t.throws(() => phones('XX'), /"XX"/)
})

t.test('t is no d: endings of numbers and other words', async (t) => {
  const words = 'twenty thirty forty fifty sixty seventy eighty ninety thirtieth thirties punctuating party'
  for (const word of words.split(' ')) t.notMatch(pronounce(word).map(arpabet).join(' '), /\bD\b/, word)
})

t.test('names that are spelled as in Irish, and names of software', async () => {
  // As the second pronunciations of the CMU dictionary, where it has the name.
  check('siobhan', 'SH AH0 V AO1 N')
  check("niamh's", 'N IY1 V Z')
  check('saoirse', 'S IH1 R SH AH0')
  check('sinead', 'SH IH0 N EY1 D')
  check('nginx', 'EH2 N JH IH0 N EH1 K S')
  check('kubectl', 'K Y UW1 B K AH2 T AH0 L')
})

t.test('function words: weak within a clause, strong at its end; other vowels before vowels', async (t) => {
  const sizes = { maxSymbols: 200, firstSymbols: 200 }
  const spoken = (text: string): string =>
    [...prepareEnglish(text, sizes)].map(({ phonemes }) => phonemes).join(' ')
  const rows: Array<[string, string]> = [
    ['the answer', 'ðɪ ˈænsɚ'], ['the hour', 'ðɪ ˈaʊɚ'], ['the FBI', 'ðɪ ˈɛf bˈiː ˈaɪ'],
    ['the book', 'ðə bˈʊk'], ['the one', 'ðə wˈʌn'], ['the user', 'ðə jˈuːzɚ'],
    ['to ask', 'tʊ ˈæsk'], ['to be', 'tə bˈiː'], ['the, apple', 'ðə, ˈæpəl'],
    ['if it will be', 'ɪf ɪt wɪl bˈiː'],
    ['his and their cats', 'hɪz ænd ðɛɹ kˈæts'],
    ['what had been there', 'wʌt hæd bɪn ðˈɛɹ'], ['under the table', 'ˌʌndɚ ðə tˈeɪbəl'],
    ['go under', 'ɡˈoʊ ˈʌndɚ'], ['not now', 'nˌɑːt nˈaʊ'], ['I can', 'aɪ kˈæn'], ['I can go', 'aɪ kæn ɡˈoʊ'],
    ['come in, sir', 'kˈʌm ˈɪn, sˈɜː'], ['turn it on', 'tˈɜːn ɪt ˈɔn'], ['I think so', 'aɪ θˈɪŋk sˈoʊ']
  ]
  for (const [text, expected] of rows) t.equal(spoken(text), expected, text)
})

t.test('derived words', async () => {
  check('cats', 'K AE1 T S')
  check("nginx's", pronounce('nginx').map(arpabet).join('') + ' IH0 Z')
  check("robot's", 'R OW1 B AA2 T S')
  check("'hello'", 'HH AH0 L OW1')
  check('tokenizes', pronounce('tokenize').map(arpabet).join('') + ' IH0 Z')
  check('json', 'JH EY1 S AH0 N')
  check('a'.repeat(50), ['a'.repeat(24), 'a'.repeat(24),
    'aa'].map((w) => pronounce(w).map(arpabet)).join(' | '))
})

t.test('letter-to-sound of words that were never shown', async (t) => {
  const file = readFileSync(new URL('./fixtures/held-out-words.txt', import.meta.url), 'utf8')
  const rows = file.trim().split('\n').map((line) => line.split(/ (.*)/) as [string, string])
  const right = rows.filter(([word, wanted]) => arpabet(readLetters(word)) === wanted).length
  const plain = (text: string): string => text.replace(/\d/g, '')
  const plainRight = rows
    .filter(([word, wanted]) => plain(arpabet(readLetters(word))) === plain(wanted)).length
  t.equal(rows.length, 200)
  t.ok(right >= 0.58 * rows.length, `${right} of 200 with stress`)
  t.ok(plainRight >= 0.64 * rows.length, `${plainRight} of 200 without stress`)
  t.same(readLetters(''), [])
})

t.test('homographs follow their neighbours', async (t) => {
  const rows: Array<[string, string, string, string]> = [
    ['read', 'have', 'it', 'R EH1 D'], ['read', 'to', 'it', 'R IY1 D'], ['use', 'to', 'it', 'Y UW1 Z'],
    ['use', 'the', 'of', 'Y UW1 S'], ['live', 'i', 'in', 'L IH1 V'], ['live', '', 'music', 'L AY1 V'],
    ['record', 'a', '', 'R EH1 K ER0 D'], ['record', 'to', 'it', 'R AH0 K AO1 R D'],
    ['close', 'very', 'to', 'K L OW1 S'], ['close', 'please', 'the', 'K L OW1 Z'],
    ['wind', 'the', '', 'W IH1 N D'], ['wound', 'it', 'up', 'W AW1 N D']
  ]
  for (const [word, before, after, expected] of rows) {
    t.equal(arpabet(homograph(word, before, after) ?? []), expected, `${before} ${word} ${after}`)
  }
  t.equal(homograph('cat', 'the', ''), undefined)
})
