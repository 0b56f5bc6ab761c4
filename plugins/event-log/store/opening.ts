import { statfs } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { EventLog, RING_BYTES, RING_ENTRIES } from '../log/log.js'
import { STORE_LIMITS } from './limits.js'
import { withTimeout } from './reads.js'
import { loadSqlite } from './sqlite-driver.js'
import { openStore } from './store.js'
import type { Clock, Logger } from '../../../kernel/index.js'
import type { Entry } from '../log/entries.js'
import type { Gap } from './gaps.js'
import type { StoreLimits } from './limits.js'
import type { OpenDb } from './sqlite-driver.js'
import type { EventStore } from './store.js'
import type { Damaged, StoreOptions } from './types.js'

/** Entries in memory beside a store: enough for most requests; more burden the garbage collector. */
const RING_STORED = 1_000

/** Entries as JSON for sending: at 10,000 events a second, two seconds of lag are served from memory. */
const RING_TEXTS = 20_000

/** The machine as the store uses it. */
export interface StoreParts {
  /** Loads SQLite. Rejects where there is none. */
  readonly load: () => Promise<OpenDb>
  /** Free bytes on the volume of a folder; null when nobody knows. */
  readonly freeBytes: (folder: string) => Promise<number | null>
  readonly limits: StoreLimits
}

/** SQLite, the disk and the usual limits. `floorBytes`: least free space in digits; other text is ignored. */
export function defaultParts (floorBytes: string | undefined): StoreParts {
  const given = floorBytes !== undefined && /^\d{1,15}$/.test(floorBytes)
  const floor = given ? { floorBytes: Number(floorBytes) } : {}
  return { load: loadSqlite, freeBytes, limits: { ...STORE_LIMITS, ...floor } }
}

async function freeBytes (folder: string): Promise<number | null> {
  return await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => null)
}

/** A store that keeps nothing, for a node that cannot store: the newest events are in memory only. */
export function memoryStore (): EventStore {
  return {
    reserved: 0,
    append () {},
    cut () {},
    record () {},
    flushed: async () => {},
    read: async () => [],
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
  /** Nothing can be stored, for this reason. */
  readonly unavailable: (why: string) => void
  /** Events are counted and not stored, for this reason; null when they are stored again. */
  readonly counting: (why: string | null) => void
}

/** The log in memory with the store behind it: what it holds at the start, and each change from then on. */
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
    logger.error({ why: error.message }, 'events cannot be stored: the newest are kept in memory only')
    unavailable(error.message)
    return { store: memoryStore(), newest: [] }
  })
  const log = new EventLog(
    store.status().mode === 'memory' ? RING_ENTRIES : RING_STORED, RING_BYTES, RING_TEXTS)
  restore(log, newest)
  log.onChange((change) => {
    if (change.type === 'append') store.append([change.entry], [change.text])
    // A log that begins again further on leaves what is stored up to there as it is.
    else store.cut(change.base?.idx ?? change.after)
  })
  return { log, store }
}

/** Opens the store and reads the newest entries. Rejects without SQLite, and on a slow disk. */
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
      new Error(`${folder} did not answer within ${limits.patienceMs} ms`))
  } catch (error) {
    opening.then((store) => store.close(), () => {})
    throw error
  }
}

/** Fills an empty log with the newest entries that follow each other. */
export function restore (log: EventLog, entries: readonly Entry[]): void {
  // Of the position before an entry the index alone is known: a log that begins there begins behind it.
  for (const entry of entries) if (!log.append(entry)) log.restart(entry)
}
