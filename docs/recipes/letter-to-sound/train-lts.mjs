// node train-lts.mjs [OUT] [ORDER] [NGRAMS]: learns letter-to-sound from npm's cmu-pronouncing-dictionary.
// Takes about a minute and 2 GB of memory; the same dictionary gives the same file.
//
// File format, compressed with brotli: uint32 LE number of pieces P and of nodes N, then for each piece
// "letters, 0, phone codes, 0", then planes of N bytes each in breadth-first order of the trie of n-grams:
// number of children low, high; piece low, high; -ln(probability) * 16; -ln(back-off weight) * 16 + 32.
// Piece 0 is the beginning of a word, piece 1 its end. Children of one node are sorted by piece.
import { writeFileSync } from 'node:fs'
import { brotliCompressSync, constants } from 'node:zlib'
import { dictionary } from 'cmu-pronouncing-dictionary'
import { align } from './align.mjs'
import { Ngrams, renormalise, smooth, thin } from './ngram.mjs'
import { encode, isHeldOut } from './phones.mjs'

const shipped = new URL('../../../plugins/capabilities-tts/text/data/lts.bin', import.meta.url)
const [, , out = shipped, order = '7', budget = '235000'] = process.argv
const RARE_PIECE = 4
const log = (line) => process.stderr.write(line + '\n')

/** words of letters with regular spelling; excludes spelled-out abbreviations and words with apostrophes */
function trainingWords () {
  const words = []
  for (const [key, pronunciation] of Object.entries(dictionary)) {
    const word = key.replace(/\(\d\)$/, '')
    if (!/^[a-z]{2,}$/.test(word) || !/[aeiouy]/.test(word) || isHeldOut(word)) continue
    words.push({ letters: Array.from(word, (c) => c.charCodeAt(0) - 96), phones: encode(pronunciation) })
  }
  return words
}

/** numbers the pieces from 2, and drops words with a piece that occurs fewer than RARE_PIECE times */
function toSequences (words) {
  const count = new Map()
  for (const word of words) {
    let i = 0
    let j = 0
    word.pieces = word.cut.map(([l, p]) => {
      const name = word.letters.slice(i, i += l).map((c) => String.fromCharCode(96 + c)).join('') +
        '|' + word.phones.slice(j, j += p).join(',')
      count.set(name, (count.get(name) ?? 0) + 1)
      return name
    })
  }
  const names = [...count.keys()].filter((name) => count.get(name) >= RARE_PIECE).sort()
  const number = new Map(names.map((name, i) => [name, i + 2]))
  const sequences = words.filter((word) => word.pieces.every((name) => number.has(name)))
    .map((word) => [0, ...word.pieces.map((name) => number.get(name)), 1])
  return { names, sequences }
}

/** the nodes left after thinning, breadth first, children sorted by piece */
function breadthFirst (model, keep) {
  const children = new Map()
  for (let id = 1; id < keep.length; id++) {
    if (!keep[id]) continue
    const list = children.get(model.parent[id])
    if (list) list.push(id); else children.set(model.parent[id], [id])
  }
  const nodes = [0]
  for (let i = 0; i < nodes.length; i++) {
    const list = (children.get(nodes[i]) ?? []).sort((a, b) => model.symbol[a] - model.symbol[b])
    for (const id of list) nodes.push(id)
  }
  return { nodes, children }
}

function serialise (names, model, prob, bow, keep) {
  const { nodes, children } = breadthFirst(model, keep)
  const planes = Array.from({ length: 6 }, () => Buffer.alloc(nodes.length))
  const byte = (x) => Math.max(0, Math.min(255, Math.round(x)))
  nodes.forEach((id, i) => {
    const n = children.get(id)?.length ?? 0
    planes[0][i] = n & 255
    planes[1][i] = n >> 8
    planes[2][i] = model.symbol[id] & 255
    planes[3][i] = model.symbol[id] >> 8
    planes[4][i] = prob[id] > 0 ? byte(-Math.log(prob[id]) * 16) : 255
    planes[5][i] = n === 0 ? 32 : byte(-Math.log(bow[id]) * 16 + 32)
  })
  const head = Buffer.alloc(8)
  head.writeUInt32LE(names.length + 2, 0)
  head.writeUInt32LE(nodes.length, 4)
  const table = ['|', '|', ...names].map((name) => {
    const [letters, phones] = name.split('|')
    return Buffer.from([...Buffer.from(letters), 0, ...phones.split(',').filter(Boolean).map(Number), 0])
  })
  return Buffer.concat([head, ...table, ...planes])
}

const aligned = align(trainingWords(), log)
const { names, sequences } = toSequences(aligned)
log(`${sequences.length} pronunciations, ${names.length} pieces`)
const model = new Ngrams(names.length + 2, Number(order))
for (const sequence of sequences) model.add(sequence)
log(`${model.parent.length} n-grams of up to ${order} pieces`)
const smoothed = smooth(model, 0)
const keep = thin(model, smoothed, Number(budget))
const raw = serialise(names, model, smoothed.prob, renormalise(model, smoothed, keep), keep)
const file = brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } })
writeFileSync(out, file)
log(`${raw.readUInt32LE(4)} n-grams kept, ${raw.length} bytes, ${file.length} compressed`)
