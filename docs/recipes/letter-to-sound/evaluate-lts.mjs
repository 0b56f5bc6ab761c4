// node evaluate-lts.mjs [COUNT] [--derive]: accuracy of letter-to-sound on the words that train-lts.mjs never
// saw. A word counts as right when it equals any pronunciation of the dictionary.
import { mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import ts from 'typescript'
import { dictionary } from 'cmu-pronouncing-dictionary'
import { encode, isHeldOut, PHONES } from './phones.mjs'

const front = new URL('../../../plugins/capabilities-tts/text/', import.meta.url)

/** Compiles the modules into a temporary folder, because Node 20 does not run TypeScript. */
async function load () {
  const folder = mkdtempSync(join(tmpdir(), 'lts-'))
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  for (const name of ['phones', 'dictionary', 'letter-to-sound', 'pronounce']) {
    const source = readFileSync(new URL(`${name}.ts`, front), 'utf8')
    writeFileSync(join(folder, name + '.js'), ts.transpileModule(source, { compilerOptions }).outputText)
  }
  symlinkSync(fileURLToPath(new URL('data', front)), join(folder, 'data'))
  const load = (name) => import(pathToFileURL(join(folder, name)))
  const [sound, words, dictionary] = await Promise.all(
    ['letter-to-sound.js', 'pronounce.js', 'dictionary.js'].map(load))
  return { ...sound, ...words, ...dictionary }
}

function editDistance (a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length]
}

const plain = (codes) => codes.map((code) => PHONES[code].replace(/\d/, ''))

const references = new Map()
for (const [key, value] of Object.entries(dictionary)) {
  const word = key.replace(/\(\d\)$/, '')
  if (!/^[a-z]{2,}$/.test(word) || !/[aeiouy]/.test(word) || !isHeldOut(word)) continue
  references.set(word, [...references.get(word) ?? [], encode(value)])
}
const words = [...references.keys()].slice(0, Number(process.argv.find((each) => /^\d+$/.test(each)) ?? 1e9))
const { readLetters, bySuffix, lookUp } = await load()
// --derive tries suffix rules first, as the product does, with a dictionary that lacks the held-out words
const known = (word) => isHeldOut(word) ? undefined : lookUp(word)
const derive = process.argv.includes('--derive')
const read = (word) => (derive ? bySuffix(word, known) : undefined) ?? readLetters(word)
read('warm')
const began = performance.now()
let right = 0
let rightPlain = 0
let errors = 0
let total = 0
for (const word of words) {
  const guess = read(word)
  const wanted = references.get(word)
  const distances = wanted.map((each) => editDistance(plain(guess), plain(each)))
  if (wanted.some((each) => each.join() === guess.join())) right++
  if (Math.min(...distances) === 0) rightPlain++
  errors += Math.min(...distances)
  total += wanted[distances.indexOf(Math.min(...distances))].length
}
const percent = (n, of) => (100 * n / of).toFixed(1) + ' %'
process.stdout.write(`${words.length} held-out words: phones right ${percent(total - errors, total)}, ` +
  `words right ${percent(rightPlain, words.length)}, with stress ${percent(right, words.length)}, ` +
  `${((performance.now() - began) / words.length).toFixed(2)} ms a word\n`)
