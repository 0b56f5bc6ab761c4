import t from 'tap'
import { american, british } from '../text/accents.js'
import { prepareEnglish } from '../text/front-end.js'

const ipaOf = (text: string): string =>
  [...prepareEnglish(text, { maxSymbols: 400, firstSymbols: 400 })].map(({ phonemes }) => phonemes).join(' ')

// Expected values are espeak-ng 1.52's output for the same words, except for British weak vowels.
const rows: ReadonlyArray<readonly [text: string, american: string, british: string]> = [
  ['water', 'wˈɔːɾɚ', 'wˈɔːtɐ'],
  ['button', 'bˈʌʔn\u0329', 'bˈʌtən'],
  ['headed', 'hˈɛdᵻd', 'hˈɛdɪd'],
  ['party', 'pˈɑːɹɾi', 'pˈɑːtɪ'],
  ['hotel', 'hoʊtˈɛl', 'həʊtˈɛl'],
  ['boxes', 'bˈɑːksᵻz', 'bˈɒksɪz'],
  ['hot pot', 'hˈɑːt pˈɑːt', 'hˈɒt pˈɒt'],
  ['car', 'kˈɑːɹ', 'kˈɑː'],
  ['near', 'nˈɪɹ', 'nˈiə'],
  ['chair', 'tʃˈɛɹ', 'tʃˈeə'],
  ['very', 'vˈɛɹi', 'vˈɛɹɪ'],
  ['go home', 'ɡˈoʊ hˈoʊm', 'ɡˈəʊ hˈəʊm'],
  ['thirty', 'θˈɜːɾi', 'θˈɜːtɪ'],
  ['forty', 'fˈɔːɹɾi', 'fˈɔːtɪ'],
  ['memory', 'mˈɛmɚɹi', 'mˈɛməɹɪ'],
  ['battery', 'bˈæɾɚɹi', 'bˈætəɹɪ'],
  ['hurry', 'hˈɜːɹi', 'hˈɜːɹɪ'],
  ['after all', 'ˈæftɚɹ ˈɔːl', 'ˈæftəɹ ˈɔːl'],
  ['after tea', 'ˈæftɚ tˈiː', 'ˈæftɐ tˈiː'],
  ['were it', 'wɜːɹ ɪt', 'wɜːɹ ɪt'],
  ['far away', 'fˈɑːɹ ɐwˈeɪ', 'fˈɑːɹ əwˈeɪ'],
  ['at a', 'æɾ ɐ', 'æt ɐ'],
  ['sentence', 'sˈɛntəns', 'sˈɛntəns'],
  ['mountain', 'mˈaʊnʔn\u0329', 'mˈaʊntən'],
  ['remove', 'ɹᵻmˈuːv', 'ɹɪmˈuːv'],
  ['until', 'ʌntˈɪl', 'əntˈɪl'],
  ['long', 'lˈɔŋ', 'lˈɔːŋ']
]

t.test('two accents of the same words', (t) => {
  for (const [text, us, gb] of rows) {
    t.equal(american(ipaOf(text)), us, text)
    t.equal(british(ipaOf(text)), gb, text)
  }
  t.end()
})
