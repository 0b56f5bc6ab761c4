import { statfs } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { EventLog, RING_BYTES, RING_ENTRIES } from '../log/log.js'
import { STORE_LIMITS, type StoreLimits, type Damaged, type StoreOptions } from './types.js'
import { withTimeout } from './reads.js'
import { loadSqlite, type OpenDb } from './sqlite-driver.js'
import { openStore, type EventStore } from './store.js'
import type { Clock, Logger } from '../../../kernel/index.js'
import type { Entry } from '../log/entries.js'
import type { Gap } from './gaps.js'

/** Maximum entries in memory on a node with a store: enough for most requests, and easy on the GC. */
const RING_STORED = 1_000

/** Maximum entries kept as JSON for followers, enough for two seconds of lag at 10,000 events/s. */
const RING_TEXTS = 20_000

export interface StoreParts {
  /** Loads SQLite. Rejects if it is not available. */
  readonly load: () => Promise<OpenDb>
  /** Free bytes on the volume of a folder; null if unknown. */
  readonly freeBytes: (folder: string) => Promise<number | null>
  readonly limits: StoreLimits
}

/** The real SQLite, disk and limits. `floorBytes`, if all digits, overrides the minimum of free bytes. */
export function defaultParts (floorBytes: string | undefined): StoreParts {
  const given = floorBytes !== undefined && /^\d{1,15}$/.test(floorBytes)
  const floor = given ? { floorBytes: Number(floorBytes) } : {}
  return { load: loadSqlite, freeBytes, limits: { ...STORE_LIMITS, ...floor } }
}

async function freeBytes (folder: string): Promise<number | null> {
  return await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => null)
}

/** A store that saves nothing, for a node that cannot use its disk; the newest events are in memory only. */
export function memoryStore (): EventStore {
  return {
    reserved: 0, append () {}, cut () {}, record () {}, flushed: async () => {}, read: async () => [],
    snapshotBefore: async () => null,
    status: () => ({ mode: 'memory', counted: 0, gaps: [], firstIdx: null, bytes: 0, queued: 0, dropped: 0 }),
    close: async () => {}
  }
}

export interface OpeningOptions {
  readonly parts: StoreParts
  readonly home: string
  readonly clock: Clock
  readonly logger: Logger
  readonly onGap: (gap: Gap) => void
  readonly onDamaged: (damaged: Damaged) => void
  /** Called with the reason if nothing can be stored. */
  readonly unavailable: (why: string) => void
  /** Called with the reason when events are only counted, and with null when they are stored again. */
  readonly counting: (why: string | null) => void
}

/** Opens the store, fills the in-memory log from it, and then saves each change to the log. */
export async function openLog (options: OpeningOptions): Promise<{ log: EventLog, store: EventStore }> {
  const { parts, home, logger, unavailable } = options
  const { store, newest } = await startStore(parts, {
    ...options,
    folder: join(home, 'events'),
    onMode ({ mode, counted }) {
      options.counting(mode === 'counting-only' ? `${counted} events were counted so far` : null)
    },
    onDamaged (damaged) {
      const file = basename(damaged.file)
      logger.error({ file, error: damaged.error }, 'a damaged file of the event log was set aside')
      options.onDamaged({ ...damaged, file })
    }
  }).catch((error: Error) => {
    logger.error({ why: error.message }, 'events cannot be stored: the newest are in memory only')
    unavailable(error.message)
    return { store: memoryStore(), newest: [] }
  })
  const log = new EventLog(
    store.status().mode === 'memory' ? RING_ENTRIES : RING_STORED, RING_BYTES, RING_TEXTS)
  restore(log, newest)
  log.onChange((change) => {
    if (change.type === 'append') store.append([change.entry], [change.text])
    // If the log restarts at a later position, the entries before that position stay in the store.
    else store.cut(change.base?.idx ?? change.after)
  })
  return { log, store }
}

/** Opens the store and reads the newest entries. Rejects if SQLite is missing or the disk is slow. */
async function startStore (
  { load, freeBytes, limits }: StoreParts, options: Omit<StoreOptions, 'openDb' | 'freeBytes' | 'limits'>
): Promise<{ store: EventStore, newest: Entry[] }> {
  const { clock, folder } = options
  const opening = load().then((openDb) =>
    openStore({ ...options, openDb, limits, freeBytes: () => freeBytes(folder) }))
  const ready = opening.then(async (store) => ({
    store, newest: await store.read({ after: 0, limit: RING_STORED, newest: true })
  }))
  try {
    return await withTimeout(clock, limits.patienceMs, ready, () =>
      new Error(`${folder} did not respond within ${limits.patienceMs} ms`))
  } catch (error) {
    opening.then((store) => store.close(), () => {})
    throw error
  }
}

/** Fills an empty log with the newest consecutive entries. */
export function restore (log: EventLog, entries: readonly Entry[]): void {
  // An entry without its predecessor cannot be checked against its digest, so the log begins after it.
  for (const entry of entries) if (!log.append(entry)) log.restart(entry)
}
