// Writes the weight of each word for each sheet, which gen.py reads. Weights are those of the search without
// its word pairs and nearest patterns:
// node --import ./test/tools/typescript.mjs teacher.mjs SHEETS.json OUT.json
import { readFileSync, writeFileSync } from 'node:fs'
import { wordGroups } from '../../../plugins/chat/guide/index.ts'
import { meanChances, parsePattern, wordChances } from '../../../plugins/chat/guide/patterns.ts'
import { rawWords, Vocabulary } from '../../../plugins/chat/guide/text.ts'

const [from, to] = process.argv.slice(2)
const { sheets, frames } = JSON.parse(readFileSync(from, 'utf8'))
const vocabulary = new Vocabulary(wordGroups())
const asked = sheets.map(({ id, asked, words }) => {
  const patterns = Object.values(asked).flat()
  const bare = patterns.map((text) => text.replace(/<\w+>/g, ' '))
  const texts = [...bare, ...Object.values(words ?? {}).flat()]
  return {
    id, texts,
    chances: meanChances(texts.map((text) =>
      wordChances(parsePattern(text), (part) => vocabulary.words(part))))
  }
}).filter(({ texts }) => texts.length > 0)
const background = meanChances(asked.map(({ chances }) => chances))
const weights = {}
for (const { id, chances } of asked) {
  for (const [word, chance] of chances) {
    const share = word.startsWith('~') ? 0.25 : 1
    const weight = share * Math.log(1 + 5.7 * chance / (background.get(word) + 0.5 / asked.length))
    ;(weights[word] ??= {})[id] = Number(weight.toFixed(3))
  }
}
const plain = (text) => text.replace(/[{}[\]|]/g, ' ')
const all = [...asked.flatMap(({ texts }) => texts), ...Object.values(frames).flat(), ...wordGroups().flat()]
const words = new Set(all.flatMap((text) => rawWords(plain(text).replaceAll('+', ' '))))
const terms = Object.fromEntries([...words].map((word) => [word, vocabulary.words(word)[0]]))
writeFileSync(to, JSON.stringify({ weights, terms }))
process.stdout.write(`${Object.keys(terms).length} words\n`)
