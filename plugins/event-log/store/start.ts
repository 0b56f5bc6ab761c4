import { statfs } from 'node:fs/promises'
import { STORE_LIMITS } from './limits.js'
import { loadSqlite } from './sqlite.js'
import type { StoreLimits } from './limits.js'
import type { OpenDb } from './sqlite.js'
import type { DiskStore } from './types.js'

/** What the store needs of the machine. */
export interface StoreParts {
  /** Loads SQLite. Rejects where there is none. */
  readonly load: () => Promise<OpenDb>
  /** Free bytes on the volume of a folder; null when nobody knows. */
  readonly freeBytes: (folder: string) => Promise<number | null>
  readonly limits: StoreLimits
}

/**
 * SQLite, the disk and the usual limits. `floorBytes`: another floor of free space, as decimal digits; any
 * other text is ignored.
 */
export function realParts (floorBytes: string | undefined): StoreParts {
  const given = floorBytes !== undefined && /^\d{1,15}$/.test(floorBytes)
  const floor = given ? { floorBytes: Number(floorBytes) } : {}
  return { load: loadSqlite, freeBytes, limits: { ...STORE_LIMITS, ...floor } }
}

async function freeBytes (folder: string): Promise<number | null> {
  return await statfs(folder).then(({ bavail, bsize }) => bavail * bsize, () => null)
}

/** A store that keeps nothing, for a node that cannot store: the newest events are in memory only. */
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
