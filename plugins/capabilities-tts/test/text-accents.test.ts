import t from 'tap'
import { american, british } from '../text/accents.js'
import { prepareEnglish } from '../text/front-end.js'

const ipaOf = (text: string): string =>
  [...prepareEnglish(text, { maxSymbols: 400, firstSymbols: 400 })].map(({ phonemes }) => phonemes).join(' ')

// Expected values are espeak-ng 1.52's output for the same words.
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
  ['go home', 'ɡˈoʊ hˈoʊm', 'ɡˈəʊ hˈəʊm']
]

t.test('two accents of the same words', (t) => {
  for (const [text, us, gb] of rows) {
    t.equal(american(ipaOf(text)), us, text)
    t.equal(british(ipaOf(text)), gb, text)
  }
  t.end()
})
