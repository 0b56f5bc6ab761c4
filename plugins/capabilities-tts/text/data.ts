import { existsSync, readFileSync } from 'node:fs'
import { brotliDecompressSync } from 'node:zlib'

/** beside the sources, and where the compiled module finds the same folder of the package */
const FOLDERS = ['./data/', '../../../../plugins/capabilities-tts/text/data/']

/** The decompressed bytes of a file of `text/data`; throws with the command that rebuilds a missing one. */
export function readData (name: string): Buffer {
  for (const folder of FOLDERS) {
    const file = new URL(folder + name, import.meta.url)
    if (existsSync(file)) return brotliDecompressSync(readFileSync(file))
  }
  const script = name === 'lts.bin' ? 'train-lts.mjs' : 'build-dictionary.mjs'
  const command = `node docs/recipes/letter-to-sound/${script}`
  throw new Error(`text data file ${name} is missing; run: ${command}`)
}
