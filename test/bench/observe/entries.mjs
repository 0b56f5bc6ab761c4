/**
 * Opens the event store and creates events for it. Imports the source, because the bundle does not export the
 * store.
 */
import { randomUUID } from 'node:crypto'
import { statfs } from 'node:fs/promises'
import { source } from '../lib/paths.mjs'

const { entryAfter, START } = await source('plugins/event-log/log/entries.ts')
const { openStore } = await source('plugins/event-log/store/store.ts')
const { loadSqlite } = await source('plugins/event-log/store/sqlite-driver.ts')
export const { rowOf } = await source('plugins/event-log/store/queue.ts')
export const { STORE_LIMITS } = await source('plugins/event-log/store/types.ts')
const { systemClock } = await source('kernel/index.ts')

const SECOND_MS = 1000
const quiet = {
  trace () {}, debug () {}, info () {}, warn () {}, error () {}, fatal () {}, child: () => quiet
}

/** Creates consecutive entries, each with a message of `characters` characters. */
export function entryMaker (characters) {
  let last = START
  let n = 0
  const message = 'x'.repeat(characters)
  return (count) => Array.from({ length: count }, () => {
    const at = new Date(Date.UTC(2026, 0, 1) + n * SECOND_MS).toISOString()
    const event = { BenchHappened: { n: n++, modelId: 'bench/paced-0', message } }
    last = entryAfter(last, last.idx + 1, 's1', { id: randomUUID(), at, origin: 'here', event })
    return last
  })
}

/** Opens the store in `folder` on the real disk; the store writes even if little space is free. */
export async function store (folder, limits = {}) {
  return await openStore({
    folder, clock: systemClock, logger: quiet, openDb: await loadSqlite(),
    limits: { ...STORE_LIMITS, floorBytes: 0, headroomBytes: 0, ...limits },
    freeBytes: () => statfs(folder).then(({ bavail, bsize }) => bavail * bsize),
    onMode () {},
    onGap (gap) { throw new Error(`events were lost: ${JSON.stringify(gap)}`) },
    onDamaged ({ error }) { throw new Error(error) }
  })
}
