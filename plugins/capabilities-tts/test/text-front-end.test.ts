import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { skippedScripts } from '../text/fold.js'
import { prepareEnglish, warmUp, type Unit } from '../text/front-end.js'
import { soundsOf } from '../text/pronounce.js'
import { sentences, windows } from '../text/sentences.js'

const OPTIONS = { maxSymbols: 200, firstSymbols: 60 }
const CONFIG = new URL('../voice/en_US-flite-16k.onnx.json', import.meta.url)
const SYMBOLS = new Set(Object.keys(
  (JSON.parse(readFileSync(CONFIG, 'utf8')) as { phoneme_id_map: Record<string, number[]> }).phoneme_id_map))

/** Checks invariants of text units, with one assertion per kind so that failure reports stay short. */
function checkUnits (t: Test, units: readonly Unit[], options = OPTIONS): void {
  const used = new Set(units.flatMap((unit) => Array.from(unit.phonemes)))
  t.same([...used].filter((symbol) => !SYMBOLS.has(symbol)), [], 'only symbols of the voice')
  const long = units.filter((unit) => unit.phonemes.length > options.maxSymbols)
  t.same(long.filter((unit) => unit.phonemes.includes(' ')), [], 'no unit is longer than asked for')
  t.same(units.filter((unit) => unit.phonemes.trim() === ''), [], 'no unit is empty')
}

function prepare (t: Test, text: string, options = OPTIONS): Unit[] {
  const units = [...prepareEnglish(text, options)]
  checkUnits(t, units, options)
  return units
}

function checkSplit (text: string, ...expected: string[]): void {
  t.same([...sentences(text)].map((each) => each.trim()), expected, text)
}

t.test('sentences', async () => {
  checkSplit('One. Two! Three? Four', 'One.', 'Two!', 'Three?', 'Four')
  checkSplit('Dr. Smith met Mr. Jones. They spoke.', 'Dr. Smith met Mr. Jones.', 'They spoke.')
  checkSplit('J. K. Rowling wrote it. Yes.', 'J. K. Rowling wrote it.', 'Yes.')
  checkSplit('See No. 5 and Fig. 3. No. I said no.', 'See No. 5 and Fig. 3.', 'No.', 'I said no.')
  checkSplit('It costs 3.50 e.g. here. Fine.', 'It costs 3.50 e.g. here.', 'Fine.')
  checkSplit('Open https://a.com/b?c=d. Then wait.', 'Open https://a.com/b?c=d.', 'Then wait.')
  checkSplit('You and I. We go.', 'You and I.', 'We go.')
  checkSplit('A line that\ngoes on.\n\nTitle\nNext.', 'A line that\ngoes on.', 'Title', 'Next.')
  checkSplit('He said “Go!” Then left.', 'He said "Go!"', 'Then left.')
  checkSplit('One。Two', 'One.', 'Two')
  checkSplit('')
})

t.test('windows keep every character and cut between words', async (t) => {
  const text = 'some words, and 😀 more. '.repeat(1000)
  t.equal([...windows(text)].join(''), text)
  t.ok([...windows(text)].every((each) => each.length <= 2000 && each.endsWith('. ')))
  const emoji = '😀'.repeat(5000)
  t.equal([...windows(emoji)].join(''), emoji)
  t.ok([...windows(emoji)].every((each) => !/\p{Cs}/u.test(each)), 'no pair is cut')
})

t.test('a sentence becomes IPA', async (t) => {
  warmUp()
  t.same(prepare(t, 'Hello, world. Is it OK?'), [
    { phonemes: 'həlˈoʊ, wˈɜːld.', sentenceEnd: true }, { phonemes: 'ɪz ɪt ˈoʊkˈeɪ?', sentenceEnd: true }
  ])
  t.equal(prepare(t, 'The colt reared.')[0]?.phonemes, 'ðə kˈoʊlt ɹˈɪɹd.')
})

t.test('the first unit is short, later ones end at clauses', async (t) => {
  const text = 'When the rain had stopped, the children ran out of the house and into the garden; ' +
    'nobody had seen the fence, which lay across the path, and so all of them fell over it without a word.'
  const units = prepare(t, text, { maxSymbols: 120, firstSymbols: 50 })
  t.equal(units[0]?.phonemes, 'wɛn ðə ɹˈeɪn hæd stˈɑːpt,')
  t.match(units[1]?.phonemes, /[,;]$/)
  t.same(units.map((each) => each.sentenceEnd), units.map((_, i) => i === units.length - 1))
  const plain = prepare(t, 'the old man walked slowly to the river with a big basket of apples ' +
    'because nobody else had any time', { maxSymbols: 60, firstSymbols: 40 })
  const joining = ['to', 'with', 'of', 'because'].map((word) => soundsOf(word, '', '')[0]!)
  const begun = plain[1]?.phonemes.split(' ')[0] ?? ''
  t.ok(joining.includes(begun), `without a clause it breaks before a joining word: ${begun}`)
})

t.test('a unit never ends inside a phrase for the sake of an early start', async (t) => {
  // Sentences like those of the Harvard lists; a bar marks the end of the first unit.
  for (const text of [
    'The acceleration of gravity| at the surface is nine point five eight seconds of arc and no more.',
    'A large size in stockings is hard to sell to people| who have never worn any before.',
    'The population counted nine hundred eighty seven thousand six hundred fifty four people| in spring.',
    'The beauty of the view stunned the young boy| and his parents waited quietly.',
    'The soft cushion broke the fall of the man| in which nobody had believed any longer at all.'
  ]) {
    const [first = '', rest = ''] = text.split('|')
    const units = prepare(t, first + rest)
    const wordsOf = (unit?: Unit): number => unit?.phonemes.split(' ').length ?? 0
    t.equal(wordsOf(units[0]), first.split(' ').length, first)
    t.equal(units.reduce((sum, unit) => sum + wordsOf(unit), 0), text.split(' ').length, 'all words')
  }
})

t.test('what cannot be spoken', async (t) => {
  const rows: Array<[string, boolean, string[]]> = [
    ['', false, []], ['   \n\t', false, []], ['?!.,;: … — ()', false, []], ['😀👍🏽❤️', false, []],
    ['שלום עולם', false, ['Hebrew']], ['你好，世界。', false, ['Han']], ['مرحبا بالعالم', false, ['Arabic']],
    ['Привет', false, ['Cyrillic']], ['ᚠᚢᚦ', false, ['Other']], ['καλημέρα', false, ['Greek']],
    ['Hello 世界 and мир', true, ['Han', 'Cyrillic']], ['Γειά hello', true, ['Greek']], ['π', true, []],
    ['こんにちは コンピュータ ok', true, ['Hiragana', 'Katakana']], ['déjà vu, Łódź', true, []], ['7', true, []],
    ['٣', true, []], ['\ud800', false, []], ['\u0000', false, []], ['한국어', false, ['Hangul']]
  ]
  for (const [text, speakable, skipped] of rows) {
    t.same(skippedScripts(text), skipped, JSON.stringify(text))
    t.equal(prepare(t, text).length > 0, speakable, JSON.stringify(text))
  }
})

t.test('long and odd input', async (t) => {
  const rows: Array<[string, string, number]> = [
    ['a word of 10,000 letters', 'abcdefghij'.repeat(1000), 20], ['5,000 nines', '9'.repeat(5000), 100],
    ['right to left', 'שלום hello '.repeat(2000), 1], ['no space', 'a,b;c.'.repeat(3000), 10],
    ['mixed', 'Hello 世界, مرحبا café. '.repeat(1000), 1000], ['open brackets', '('.repeat(20_000), 0],
    ['stops', 'A.'.repeat(10_000), 10], ['money', '$1'.repeat(5000), 10],
    ['accents', 'a\u0301\u0301'.repeat(5000), 1],
    ['ligatures that grow', 'ﷺ'.repeat(20_000), 0], ['at signs', 'a@'.repeat(10_000), 10]
  ]
  for (const [name, text, least] of rows) {
    const units = prepare(t, text)
    t.ok(units.length >= least, `${name}: ${units.length} units`)
  }
})

t.test('100,000 characters: lazy, in bounded memory, nothing lost', async (t) => {
  const sentence = 'Hello there, Dr. Smith paid $3.50 on 2026-11-20 for five km of cable. '
  const text = sentence.repeat(Math.ceil(100_000 / sentence.length))
  const first = prepareEnglish(text, OPTIONS).next()
  t.equal(first.value?.phonemes, 'həlˈoʊ ðˈɛɹ,')
  let count = 0
  let words = 0
  let most = 0
  const before = process.memoryUsage().heapUsed
  for (const unit of prepareEnglish(text, OPTIONS)) {
    words += unit.phonemes.split(' ').length
    if (count++ % 500 === 0) most = Math.max(most, process.memoryUsage().heapUsed - before)
  }
  t.equal(words % (text.length / sentence.length), 0, 'every sentence has the same number of words')
  t.ok(count > 1400)
  t.ok(most < 100e6, `${most} bytes`)
})

t.test('no input throws and every unit is well formed', async (t) => {
  let seed = 12345
  const random = (n: number): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) % n
  const parts = ['a', 'I', 'GPU', 'the ', 'Dr. ', '3', '12', '.', ',', '?', '-', '–', '$', '€', '%', ' ',
    '\n', "'", '"',
    '(', '/', ':', '@', '#', 'http://', '.com', 'é', 'ß', '世', 'ع', 'я', '😀', '\ud83d', '\udc00', '\u0301',
    '\u200d', '½',
    '²', 'µ', 'km', 'XIV', 'st', 'No. ', 'p.m.', '2026-11-20', '3:30', '１', 'π', '\u0000', '&', 'v1.2', '_',
    '\\', '…']
  for (let round = 0; round < 1500; round++) {
    const text = Array.from({ length: 1 + random(25) }, () => parts[random(parts.length)]).join('')
    const units = [...prepareEnglish(text, { maxSymbols: 40 + random(200), firstSymbols: random(100) })]
    const bad = units.find(({ phonemes }) => /^[ ,.;:?!]|^$/.test(phonemes) ||
      Array.from(phonemes).some((symbol) => !SYMBOLS.has(symbol)))
    if (bad !== undefined) t.fail(JSON.stringify({ text, bad }))
  }
  t.pass('1500 random texts')
})
