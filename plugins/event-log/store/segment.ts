import { rename, rm, stat } from 'node:fs/promises'
import type { Range } from './gaps.js'
import type { Row } from './queue.js'
import type { Db, OpenDb } from './sqlite-driver.js'
import type { Snapshot } from './types.js'

// One file of the log: a SQLite database, its tables and the statements that write to it.

const PRAGMAS = [
  'PRAGMA busy_timeout = 5000', 'PRAGMA auto_vacuum = NONE', 'PRAGMA journal_mode = WAL',
  'PRAGMA synchronous = NORMAL', 'PRAGMA journal_size_limit = 4194304', 'PRAGMA wal_autocheckpoint = 1000',
  'PRAGMA trusted_schema = OFF', 'PRAGMA foreign_keys = ON'
]

/** `ev.body` is the whole entry as JSON; the other columns are for searches. Times in ms since 1970. */
const SCHEMA = [
  'CREATE TABLE IF NOT EXISTS ev' +
  '(idx INTEGER PRIMARY KEY, at INTEGER, sid TEXT, origin TEXT, kind TEXT, body TEXT)',
  'CREATE INDEX IF NOT EXISTS ev_at ON ev(at)',
  'CREATE TABLE IF NOT EXISTS snap' +
  '(n INTEGER PRIMARY KEY, idx INTEGER, at INTEGER, sid TEXT, cause TEXT, body TEXT)',
  'CREATE INDEX IF NOT EXISTS snap_idx ON snap(idx)',
  'CREATE INDEX IF NOT EXISTS snap_at ON snap(at)',
  'CREATE TABLE IF NOT EXISTS gap(lo INTEGER PRIMARY KEY, hi INTEGER, count INTEGER)',
  // Always empty, but older versions of svc take a file that lacks this table as unfinished and delete it.
  'CREATE TABLE IF NOT EXISTS replaced(name TEXT PRIMARY KEY)'
]

const TABLES = SCHEMA.filter((sql) => sql.startsWith('CREATE TABLE')).length

/** Inserts rows of `rowOf`: time, kind, entry. */
const INSERT_ROWS = 'INSERT OR IGNORE INTO ev SELECT ' +
  ['$[2].idx', '$[0]', '$[2].sid', '$[2].origin', '$[1]', '$[2]']
    .map((path) => `json_extract(value, '${path}')`).join(', ') + ' FROM json_each(?)'

/** Summary of a file; `prev` is from the first entry, or is its index minus 1 if its body is damaged. */
const CONTENTS = 'SELECT (SELECT min(idx) FROM ev) AS lo, (SELECT max(idx) FROM ev) AS hi, ' +
  '(SELECT count(*) FROM ev) AS count, (SELECT max(at) FROM ev) AS at, (SELECT CASE WHEN json_valid(body) ' +
  "THEN json_extract(body, '$.prev') ELSE idx - 1 END FROM ev ORDER BY idx LIMIT 1) AS prev"

const PARTS = ['-wal', '-shm', '-journal', '']

export type Contents = NonNullable<Awaited<ReturnType<typeof contentsOf>>>

/** Opens a file for writing; `make` creates it. Rejects with DbError. */
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

/** Reads the contents of a file; null if its creation was interrupted. Rejects with DbError. */
export async function contentsOf (db: Db) {
  const tables = await db.all("SELECT 1 FROM sqlite_master WHERE type = 'table'")
  if (tables.length < TABLES) return null
  type Found = Record<'lo' | 'hi' | 'at' | 'prev', number | null> & { count: number }
  const [found] = await db.all<Found>(CONTENTS)
  const gaps = await db.all<{ lo: number, hi: number }>('SELECT lo, hi FROM gap')
  const { lo, hi, at, prev, count } = found!
  const entries: Range | null = lo === null || hi === null ? null : [lo, hi]
  return {
    entries, prev: prev ?? 0, count,
    /** Time of the newest entry, in ms since 1970. */
    newestMs: at ?? 0,
    /** Ranges of missing indices that were recorded when later entries were written. */
    gaps: gaps.map((gap): Range => [gap.lo, gap.hi])
  }
}

/** Whether SQLite's quick check passes. Rejects with DbError. */
export async function passesQuickCheck (db: Db): Promise<boolean> {
  return (await db.all<{ quick_check: string }>('PRAGMA quick_check(1)'))[0]?.quick_check === 'ok'
}

export interface Group { rows: readonly Row[], gaps: readonly Range[], snapshots: readonly Snapshot[] }

export async function writeGroup (db: Db, { rows, gaps, snapshots }: Group): Promise<void> {
  const insert = async (): Promise<void> => {
    if (rows.length > 0) await db.run(INSERT_ROWS, [`[${rows.map(({ text }) => text).join(',')}]`])
  }
  // A single statement is already a transaction; BEGIN and COMMIT would add two turns of the event loop.
  if (gaps.length + snapshots.length === 0) return await insert()
  await inTransaction(db, async () => {
    await insert()
    for (const gap of gaps) await db.run('INSERT OR REPLACE INTO gap VALUES(?, ?, 0)', gap)
    for (const { idx, at, sid, cause, body } of snapshots) {
      await db.run('INSERT INTO snap(idx, at, sid, cause, body) VALUES(?, ?, ?, ?, ?)',
        [idx, at, sid, cause, body])
    }
  })
}

/** Above `most` bytes, deletes every second snapshot, not the oldest or newest. Rejects with DbError. */
export async function thinSnapshots (db: Db, most: number): Promise<void> {
  await db.run('DELETE FROM snap WHERE (SELECT sum(octet_length(body)) FROM snap) > ? AND n IN ' +
    '(SELECT n FROM (SELECT n, row_number() OVER (ORDER BY n) AS place FROM snap) WHERE place % 2 = 0) ' +
    'AND n < (SELECT max(n) FROM snap)', [most])
}

export async function deleteAfter (db: Db, after: number): Promise<void> {
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
    // SQLite may already have rolled back the transaction, so ignore an error here.
    await db.run('ROLLBACK').catch(() => {})
    throw error
  }
}

/** Merges the journal into the file and closes it, so that it is readable on a full disk too. */
export async function seal (db: Db): Promise<void> {
  await db.run('PRAGMA journal_mode = DELETE').catch(() => {})
  await db.close().catch(() => {})
}

/** Bytes of a file on disk, with its journal files. */
export async function bytesOf (path: string): Promise<number> {
  const sizes = await Promise.all(PARTS.map((part) => stat(path + part).then(({ size }) => size, () => 0)))
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Removes a file with its journal files; a missing one is ignored. */
export async function removeFile (path: string): Promise<void> {
  for (const part of PARTS) await rm(path + part, { force: true })
}

/** Renames a file with its journal files. */
export async function moveFile (from: string, to: string): Promise<void> {
  for (const part of PARTS) {
    await rename(from + part, to + part).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT' || part === '') throw error
    })
  }
}
