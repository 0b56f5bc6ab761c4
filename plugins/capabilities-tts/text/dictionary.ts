import { existsSync, readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'

/** Paths of the data folder relative to this module's source and to its compiled file. */
const FOLDERS = ['./data/', '../../../../plugins/capabilities-tts/text/data/']

/** Reads and decompresses a file in `text/data`. @throws Error with the rebuild command if it is missing */
export function readData (name: string): Buffer {
  for (const folder of FOLDERS) {
    const file = new URL(folder + name, import.meta.url)
    if (existsSync(file)) return brotliDecompressSync(readFileSync(file))
  }
  const script = name === 'lts.bin' ? 'train-lts.mjs' : 'build-dictionary.mjs'
  const command = `node docs/recipes/letter-to-sound/${script}`
  throw new Error(`text data file ${name} is missing; run: ${command}`)
}

const BLOCK = 16
/** Bytes from 128 on are phone codes plus 128; docs/recipes/letter-to-sound creates the file. */
const PHONE = 128

let loaded: Buffer | undefined

/** The dictionary (about 1.4 MB), loaded once per process. */
const dictionary = (): Buffer => loaded ??= readData('dictionary.bin')

const blockStart = (data: Buffer, block: number): number => data.readUInt32LE(8 + 4 * block)

function lettersEnd (data: Buffer, at: number): number {
  while (data[at]! < PHONE) at++
  return at
}

/** The last block whose first word is not after `word`. */
function findBlock (data: Buffer, word: string): number {
  let low = 0
  let high = data.readUInt32LE(4) - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    const at = blockStart(data, middle) + 1
    if (data.toString('latin1', at, lettersEnd(data, at)) <= word) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * First pronunciation of a lower-case word in the CMU Pronouncing Dictionary as phone codes, or undefined.
 * Binary search over blocks of 16 words: a few microseconds.
 */
export function lookUp (word: string): number[] | undefined {
  const data = dictionary()
  let at = blockStart(data, findBlock(data, word))
  let current = ''
  for (let i = 0; i < BLOCK && at < data.length; i++) {
    const letters = lettersEnd(data, at + 1)
    current = current.slice(0, data[at]) + data.toString('latin1', at + 1, letters)
    const end = data.indexOf(0, letters)
    if (current === word) return Array.from(data.subarray(letters, end), (byte) => byte - PHONE)
    if (current > word) return undefined
    at = end + 1
  }
  return undefined
}
