import { open, rename, stat, unlink } from 'node:fs/promises'
import { SIDECARS } from './names.js'
import type { Db, OpenDb, SqlValue } from './sqlite.js'
import type { Op } from './queue.js'
import type { Range } from './ranges.js'
import type { Snapshot } from './types.js'

const PRAGMAS = [
  'PRAGMA busy_timeout = 5000', 'PRAGMA auto_vacuum = NONE', 'PRAGMA journal_mode = WAL',
  'PRAGMA synchronous = NORMAL', 'PRAGMA journal_size_limit = 4194304', 'PRAGMA wal_autocheckpoint = 1000',
  'PRAGMA trusted_schema = OFF', 'PRAGMA foreign_keys = ON'
]

/**
 * `ev.body` is the whole entry as JSON; the other columns are there to be searched. Times in ms since 1970.
 */
export const SCHEMA = [
  'CREATE TABLE IF NOT EXISTS ev' +
    '(idx INTEGER PRIMARY KEY, at INTEGER, sid TEXT, origin TEXT, kind TEXT, body TEXT)',
  'CREATE INDEX IF NOT EXISTS ev_at ON ev(at)',
  'CREATE TABLE IF NOT EXISTS snap' +
    '(n INTEGER PRIMARY KEY, idx INTEGER, at INTEGER, sid TEXT, cause TEXT, body TEXT)',
  'CREATE INDEX IF NOT EXISTS snap_idx ON snap(idx)',
  'CREATE INDEX IF NOT EXISTS snap_at ON snap(at)',
  'CREATE TABLE IF NOT EXISTS gap(lo INTEGER PRIMARY KEY, hi INTEGER, count INTEGER)',
  // Segments whose newest entries are in here: they are out of date.
  'CREATE TABLE IF NOT EXISTS replaced(name TEXT PRIMARY KEY)'
]

const TABLES = SCHEMA.filter((sql) => sql.startsWith('CREATE TABLE')).length

/** Of rows as `rowOf` makes them: time, kind, entry. */
const INSERT_ROWS = 'INSERT OR IGNORE INTO ev SELECT ' +
  ['$[2].idx', '$[0]', '$[2].sid', '$[2].origin', '$[1]', '$[2]']
    .map((path) => `json_extract(value, '${path}')`).join(', ') + ' FROM json_each(?)'

/** What a segment file holds. */
export interface Contents {
  /** Indices of the oldest and the newest entry; null when there is none. */
  readonly entries: Range | null
  /** Newest time of an entry, ms. */
  readonly newestMs: number
  readonly gaps: readonly Range[]
  /** Names of segments that this one replaces. */
  readonly replaced: readonly string[]
}

/** Opens a segment for writing, and makes it when told to. Rejects with DbError. */
export async function openForWriting (openDb: OpenDb, path: string, make: boolean): Promise<Db> {
  const db = await openDb(path, make)
  try {
    for (const sql of PRAGMAS) await db.run(sql)
    if (make) for (const sql of [...SCHEMA, 'PRAGMA wal_checkpoint(TRUNCATE)']) await db.run(sql)
    return db
  } catch (error) {
    await db.close().catch(() => {})
    throw error
  }
}

/**
 * Reads what a segment holds; null for one that was never finished, or has nothing in it. Rejects with
 * DbError.
 */
export async function contentsOf (db: Db): Promise<Contents | null> {
  const [{ tables }] = await db.all<{ tables: number }>(
    "SELECT count(*) AS tables FROM sqlite_master WHERE type = 'table'") as [{ tables: number }]
  if (tables < TABLES) return null
  const [found] = await db.all<{ lo: number | null, hi: number | null, at: number | null, snaps: number }>(
    'SELECT (SELECT min(idx) FROM ev) AS lo, (SELECT max(idx) FROM ev) AS hi, ' +
    '(SELECT max(at) FROM ev) AS at, (SELECT count(*) FROM snap) AS snaps')
  const gaps = await db.all<{ lo: number, hi: number }>('SELECT lo, hi FROM gap ORDER BY lo')
  const replaced = await db.all<{ name: string }>('SELECT name FROM replaced')
  const { lo, hi, at, snaps } = found!
  if (lo === null && snaps === 0 && gaps.length === 0) return null
  return {
    entries: lo === null || hi === null ? null : [lo, hi],
    newestMs: at ?? 0,
    gaps: gaps.map((gap): Range => [gap.lo, gap.hi]),
    replaced: replaced.map(({ name }) => name)
  }
}

/** True when SQLite finds nothing wrong with the file. Rejects with DbError. */
export async function isSound (db: Db): Promise<boolean> {
  const rows = await db.all<{ quick_check: string }>('PRAGMA quick_check(1)')
  return rows[0]?.quick_check === 'ok'
}

/** Writes a group in one transaction. Rejects with DbError; nothing of it is written then. */
export async function writeGroup (db: Db, ops: readonly Op[]): Promise<void> {
  const rows = ops.filter((op) => op.type === 'append').map((op) => op.row.text)
  const insert = async (): Promise<void> => {
    if (rows.length > 0) await db.run(INSERT_ROWS, [`[${rows.join(',')}]`])
  }
  // One statement is a transaction by itself; BEGIN and COMMIT would wait for two more turns of a busy loop.
  if (rows.length === ops.length) return await insert()
  await inTransaction(db, async () => {
    await insert()
    for (const op of ops) {
      if (op.type === 'snapshot') await insertSnapshot(db, op.snapshot)
      else if (op.type === 'gap') {
        const { from, to, count } = op.gap
        await db.run('INSERT OR REPLACE INTO gap VALUES(?, ?, ?)', [from, to, count])
      }
    }
  })
}

async function insertSnapshot (db: Db, { idx, at, sid, cause, body }: Snapshot): Promise<void> {
  const values: SqlValue[] = [idx, at, sid, cause, body]
  await db.run('INSERT INTO snap(idx, at, sid, cause, body) VALUES(?, ?, ?, ?, ?)', values)
}

/** Takes away what lies behind an index. Rejects with DbError. */
export async function cutBehind (db: Db, after: number): Promise<void> {
  await inTransaction(db, async () => {
    await db.run('DELETE FROM ev WHERE idx > ?', [after])
    await db.run('DELETE FROM snap WHERE idx > ?', [after])
    await db.run('DELETE FROM gap WHERE lo > ?', [after])
    await db.run('UPDATE gap SET hi = ? WHERE hi > ?', [after, after])
  })
}

async function inTransaction (db: Db, work: () => Promise<void>): Promise<void> {
  await db.run('BEGIN IMMEDIATE')
  try {
    await work()
    await db.run('COMMIT')
  } catch (error) {
    // SQLite may have rolled back by itself.
    await db.run('ROLLBACK').catch(() => {})
    throw error
  }
}

/** Closes a segment for good: all of it is in the one file then, which can be read on a full disk too. */
export async function seal (db: Db): Promise<void> {
  try {
    await db.run('PRAGMA journal_mode = DELETE')
  } finally {
    await db.close()
  }
}

/** Bytes of a segment on disk, its sidecars too. */
export async function bytesOf (path: string): Promise<number> {
  const sizes = await Promise.all(['', ...SIDECARS].map((more) =>
    stat(path + more).then(({ size }) => size, () => 0)))
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Makes what a file holds, or a folder's names, outlive a loss of power. */
export async function outlive (path: string): Promise<void> {
  const handle = await open(path, 'r')
  try { await handle.sync() } finally { await handle.close() }
}

/** Removes a segment; a file that is not there is no fault. */
export async function removeSegment (path: string): Promise<void> {
  for (const more of [...SIDECARS, '']) await unlink(path + more).catch(ignoreMissing)
}

/** Moves a segment with its sidecars to another name. */
export async function moveSegment (from: string, to: string): Promise<void> {
  for (const more of SIDECARS) await rename(from + more, to + more).catch(ignoreMissing)
  await rename(from, to)
}

function ignoreMissing (error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
