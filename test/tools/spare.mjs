// Loaded into the node of a test: has every disk look so that TEST_SPARE_BYTES instead of 10 GiB have to stay
// free on it. The product itself has no way to keep less.
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const KEPT = 10 * 2 ** 30
const { statfs } = fs
const spare = Number(process.env.TEST_SPARE_BYTES)
fs.statfs = async (path) => {
  const found = await statfs(path)
  const free = found.bavail * found.bsize
  // Where less is free than has to stay so, nothing fits; there is room for events all the same.
  const shown = free < spare ? Math.min(free, KEPT / 2) : free + KEPT - spare
  return { ...found, bavail: Math.floor(shown / found.bsize) }
}
syncBuiltinESMExports()
