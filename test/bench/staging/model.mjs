/** Models of random bytes that are never run, and copies of them with plain tools. */
import { execFile } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const PIECE_BYTES = 4 * 1024 ** 2
const run = promisify(execFile)

const CARD = {
  revision: '1', title: 'A model for benchmarks', description: 'Random bytes.', tasks: ['chat'],
  family: 'none', engine: 'none', backends: ['cpu'], files: [], totalBytes: 0, nLayers: 1, hiddenSize: 1,
  heads: 0, kvHeads: 0, headSize: 0, contextLength: 1, supportsTensor: false, companions: [],
  licence: 'none', languages: ['en'], quantization: null, voices: [], defaults: {}, support: {}
}

/**
 * Creates a model in the store of `folder` (see withSite): a card, and files `{ path, bytes }` of random
 * bytes. Returns `{ modelId, directory, bytes }`; `bytes` excludes the card.
 */
export function makeModel (folder, modelId, files) {
  const directory = join(folder, 'store', modelId.replace('/', '--'))
  mkdirSync(directory, { recursive: true })
  // YAML is a superset of JSON, so the card can be written as JSON.
  writeFileSync(join(directory, 'card.yaml'), JSON.stringify({ ...CARD, modelId }))
  for (const { path, bytes } of files) writeRandom(join(directory, path), bytes)
  return { modelId, directory, bytes: files.reduce((sum, file) => sum + file.bytes, 0) }
}

/** Descriptions of `count` files of the same size, in folders of a hundred. */
export const alike = (count, bytes) => Array.from({ length: count }, (_, i) => ({
  path: count > 100 ? `d${Math.floor(i / 100)}/f${i}.bin` : `part-${i}.bin`, bytes
}))

function writeRandom (path, bytes) {
  mkdirSync(dirname(path), { recursive: true })
  const file = openSync(path, 'w')
  const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, bytes))
  for (let left = bytes; left > 0; left -= piece.length) {
    writeSync(file, randomFillSync(piece), 0, Math.min(piece.length, left))
  }
  // Written to disk now, because a later timed copy must not wait for these bytes.
  fsyncSync(file)
  closeSync(file)
}

/** Flushes pending writes to disk, so that the next timed step does not wait for them. */
export async function settleDisk () { await run('sync') }

/** Runs `cp -r`, then `sha256sum` and `sync` of the copies; `{ cp, sum, sync, cpu }` in seconds. */
export async function plainCopy (directory, to) {
  const script = [
    'TIMEFORMAT="%R %U %S"',
    'set -e',
    'each () { find "$2" -type f -print0 | xargs -0 "$1" > "$3"; }',
    'time cp -r "$1" "$2"',
    'time each sha256sum "$2" /dev/null',
    'time each sync "$2" /dev/null'
  ].join('\n')
  try {
    const { stderr } = await run('bash', ['-c', script, 'bash', directory, to])
    const times = stderr.trim().split('\n').map((line) => line.split(' ').map(Number))
    const [cp, sum, sync] = times.map(([real]) => real)
    return { cp, sum, sync, cpu: times.slice(0, 2).reduce((all, [, user, system]) => all + user + system, 0) }
  } finally {
    rmSync(to, { recursive: true, force: true })
  }
}
