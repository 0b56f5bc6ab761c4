import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { diskTest, everything, full, openRig, tempFolder } from './store-kit.js'
import { within } from '../store/gaps.js'
import type { Test } from 'tap'
import type { StoreLimits } from '../store/types.js'

const RATE = 2000

/** Appends in another process, kills it after `ms`, and returns the last index that it acknowledged. */
async function appendAndDie (
  folder: string, ms: number, limits: Partial<StoreLimits>
): Promise<{ acked: number, reserved: number }> {
  const root = fileURLToPath(new URL('../../..', import.meta.url))
  const child = spawn(process.execPath, ['--import=./test/tools/typescript.mjs',
    fileURLToPath(new URL('fixtures/appender.ts', import.meta.url)), folder, String(RATE),
    JSON.stringify(limits)],
  { cwd: root, env: { ...process.env, NODE_OPTIONS: '' }, stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  let kill: NodeJS.Timeout | undefined
  child.stdout.on('data', (part: Buffer) => {
    text += String(part)
    // The appender's first group is on disk, so from here on it may be killed at any time.
    if (text.includes('acked')) kill ??= setTimeout(() => { child.kill('SIGKILL') }, ms)
  })
  await once(child, 'close')
  const [reserved] = /^start (\d+)$/m.exec(text)!.slice(1).map(Number)
  return { acked: Number([...text.matchAll(/^acked (\d+)$/gm)].at(-1)![1]), reserved: reserved! }
}

/** Kills the appender `count` times; after each kill, all acknowledged entries must be stored in order. */
async function rounds (t: Test, count: number, limits: Partial<StoreLimits>, whole: boolean): Promise<void> {
  const folder = tempFolder(t)
  const mostMs = 300
  let before = 0
  for (let round = 0; round < count; round++) {
    const { acked, reserved } = await appendAndDie(folder, (round * 97) % mostMs, limits)
    const rig = await openRig(t, folder, { limits })
    const entries = await everything(rig.store)
    const newest = entries.at(-1)!
    const gaps = within(rig.store.status().gaps, entries[0]!.idx, Infinity)
    const faults = [
      ...rig.damaged.length === 0 ? [] : ['damage'],
      ...newest.idx >= acked ? [] : [`${acked} was on the disk, ${newest.idx} is left`],
      ...rig.store.reserved >= newest.idx && reserved >= before ? [] : ['an index could be given twice'],
      ...entries.every((entry, i) => i === 0 || entry.prev === entries[i - 1]!.idx) ? [] : ['a gap'],
      ...!whole || entries[0]!.prev === 0 ? [] : ['the beginning is gone'],
      ...gaps.length === 0 ? [] : [`gaps ${JSON.stringify(gaps)}`]
    ]
    t.same(faults, [], `round ${round}: ${entries.length} entries`)
    before = newest.idx
    await rig.store.close()
  }
}

diskTest('T-L04: kill -9 at 2,000 events a second loses nothing that was acknowledged', async (t) => {
  await rounds(t, full ? 100 : 2, {}, true)
})

diskTest('kill -9 while files are closed and deleted', async (t) => {
  // Small files, so that a rotation or deletion is nearly always in progress.
  const small = { fileBytes: 120_000, totalBytes: 300_000, keepEntries: 200 }
  await rounds(t, full ? 50 : 3, small, false)
})
