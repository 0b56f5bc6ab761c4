import { readData } from './data.js'

const BLOCK = 16
/** bytes from here on are phone numbers plus 128; docs/recipes/letter-to-sound makes the file */
const PHONE = 128

interface Dictionary {
  data: Buffer
  blocks: number
}

let loaded: Dictionary | undefined

/** About 1.4 MB, read once per process on first use. */
function dictionary (): Dictionary {
  if (!loaded) {
    const data = readData('dictionary.bin')
    loaded = { data, blocks: data.readUInt32LE(4) }
  }
  return loaded
}

function blockStart (dict: Dictionary, block: number): number {
  return dict.data.readUInt32LE(8 + 4 * block)
}

function lettersEnd (data: Buffer, at: number): number {
  while (data[at]! < PHONE) at++
  return at
}

/** the first word of a block, which is stored whole */
function firstWord (dict: Dictionary, block: number): string {
  const at = blockStart(dict, block) + 1
  return dict.data.toString('latin1', at, lettersEnd(dict.data, at))
}

/** the last block that starts with a word not after `word` */
function findBlock (dict: Dictionary, word: string): number {
  let low = 0
  let high = dict.blocks - 1
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (firstWord(dict, middle) <= word) low = middle
    else high = middle - 1
  }
  return low
}

/**
 * First pronunciation of a lower-case word in the CMU Pronouncing Dictionary as phone numbers, or undefined
 * when the dictionary lacks it. Binary search over blocks of 16 words: a few microseconds.
 */
export function lookUp (word: string): number[] | undefined {
  const dict = dictionary()
  const { data } = dict
  let at = blockStart(dict, findBlock(dict, word))
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
