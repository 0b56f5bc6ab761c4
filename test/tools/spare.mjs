// Preloaded into test nodes: statfs reports space as if the product kept TEST_SPARE_BYTES free instead of its
// fixed 10 GiB.
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'

const KEPT = 10 * 2 ** 30
const { statfs } = fs
const spare = Number(process.env.TEST_SPARE_BYTES)
fs.statfs = async (path) => {
  const found = await statfs(path)
  const free = found.bavail * found.bsize
  // Once the reserve is used up, the reported space suffices only for the event log.
  const shown = free < spare ? Math.min(free, KEPT / 2) : free + KEPT - spare
  return { ...found, bavail: Math.floor(shown / found.bsize) }
}
syncBuiltinESMExports()
