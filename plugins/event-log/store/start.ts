import { statfs } from 'node:fs/promises'
import { RING_STORED } from '../limits.js'
import { newestOf } from '../restore.js'
import { STORE_LIMITS } from './limits.js'
import { loadSqlite } from './sqlite.js'
import { openStore } from './store.js'
import type { Entry } from '../entries.js'
import type { StoreLimits } from './limits.js'
import type { OpenDb } from './sqlite.js'
import type { DiskStore, StoreOptions } from './types.js'

/** What the store needs of the machine. */
export interface StoreParts {
  /** Loads SQLite. Rejects where there is none. */
  readonly load: () => Promise<OpenDb>
  /** Free bytes on the volume of a folder; null when nobody knows. */
  readonly freeBytes: (folder: string) => Promise<number | null>
  readonly limits: StoreLimits
}

/**
 * The real ones. `floorBytes`: text of a number that replaces the floor of free space; anything else does
 * not.
 */
export function realParts (floorBytes: string | undefined): StoreParts {
  const given = floorBytes !== undefined && /^\d{1,15}$/.test(floorBytes)
  const floor = given ? { floorBytes: Number(floorBytes) } : {}
  return { load: loadSqlite, freeBytes, limits: { ...STORE_LIMITS, ...floor } }
}

async function freeBytes (folder: string): Promise<number | null> {
  return await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => null)
}

/** A store, and the newest entries in it. */
export interface StartedStore { readonly store: DiskStore, readonly newest: readonly Entry[] }

interface StartOptions extends Omit<StoreOptions, 'openDb' | 'freeBytes' | 'limits'> {
  /** Nothing can be stored, for this reason. */
  readonly unavailable: (why: string) => void
}

/**
 * Opens the store. Where there is none, or the disk does not answer in time, the events are in memory only:
 * never rejects, and never holds the start up.
 */
export async function startStore (
  { load, freeBytes: free, limits }: StoreParts, options: StartOptions
): Promise<StartedStore> {
  const { clock, folder } = options
  const opening = load().then((openDb) =>
    openStore({ ...options, openDb, limits, freeBytes: () => free(folder) }))
  const ready = opening.then(async (store) => ({ store, newest: await newestOf(store, RING_STORED) }))
  let cancel = (): void => {}
  const late = new Promise<never>((_resolve, reject) => {
    cancel = clock.after(limits.patienceMs, () => {
      reject(new Error(`${folder} did not answer within ${limits.patienceMs} ms`))
    })
  })
  try {
    return await Promise.race([ready, late])
  } catch (error) {
    ready.catch(() => {})
    opening.then((store) => store.close(), () => {})
    options.unavailable((error as Error).message)
    return { store: memoryStore(), newest: [] }
  } finally {
    cancel()
  }
}

/** Where nothing can be stored: the newest events are in memory only. */
export function memoryStore (): DiskStore {
  return {
    reserved: 0,
    append () {},
    cut () {},
    record () {},
    flushed: async () => {},
    read: async () => [],
    snapshotBefore: async () => null,
    status: () => ({ mode: 'memory', counted: 0, gaps: [], firstIdx: null, bytes: 0, queued: 0, dropped: 0 }),
    onMode: () => () => {},
    close: async () => {}
  }
}
