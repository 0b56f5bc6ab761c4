// node build-dictionary.mjs [OUT]: npm's cmu-pronouncing-dictionary -> data/dictionary.bin
//
// Words of letters and apostrophes with their first pronunciation, sorted, in blocks of 16. Inside a block
// each word is stored as its difference from the word before:
//   byte: letters shared with the word before | letters ... | phone codes, each + 128 | 0
// The first word of a block shares nothing, so a block decodes alone. The file is compressed with brotli.
// Head: uint32 LE number of words, number of blocks, then the byte offset of every block.
import { writeFileSync } from 'node:fs'
import { brotliCompressSync, constants } from 'node:zlib'
import { dictionary } from 'cmu-pronouncing-dictionary'
import { encode } from './phones.mjs'

const BLOCK = 16

function sharedPrefix (a, b) {
  let n = 0
  while (n < a.length && a[n] === b[n]) n++
  return n
}

/** returns the file content before compression */
export function pack (entries) {
  const words = Object.keys(entries).filter((word) => /^[a-z']+$/.test(word)).sort()
  const bytes = []
  const offsets = []
  words.forEach((word, index) => {
    if (index % BLOCK === 0) offsets.push(bytes.length)
    const shared = index % BLOCK === 0 ? 0 : sharedPrefix(word, words[index - 1])
    const codes = encode(entries[word]).map((code) => code + 128)
    bytes.push(shared, ...Buffer.from(word.slice(shared)), ...codes, 0)
  })
  const head = Buffer.alloc(8 + 4 * offsets.length)
  head.writeUInt32LE(words.length, 0)
  head.writeUInt32LE(offsets.length, 4)
  offsets.forEach((offset, i) => head.writeUInt32LE(head.length + offset, 8 + 4 * i))
  return Buffer.concat([head, Buffer.from(bytes)])
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const shipped = new URL('../../../plugins/capabilities-tts/text/data/dictionary.bin', import.meta.url)
  const out = process.argv[2] ?? shipped
  const raw = pack(dictionary)
  const file = brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } })
  writeFileSync(out, file)
  process.stdout.write(`${raw.readUInt32LE(0)} words, ${raw.length} bytes, ${file.length} compressed\n`)
}
