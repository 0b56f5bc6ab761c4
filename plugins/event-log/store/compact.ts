import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { segmentName } from './names.js'
import { bytesOf, contentsOf, outlive, removeSegment, SCHEMA } from './segment.js'
import { DbError } from './sqlite.js'
import type { StoreLimits } from './limits.js'
import type { Contents } from './segment.js'
import type { Segment } from './segments.js'
import type { Db, OpenDb } from './sqlite.js'

export interface CompactOptions {
  readonly openDb: OpenDb
  readonly folder: string
  readonly limits: StoreLimits
  /** All segments, oldest first, closed. */
  readonly segments: readonly Segment[]
}

/**
 * Copies the newest entries, the snapshots that belong to them and the gaps into a new segment. All of it is
 * SQL, outside the event loop. The new file appears whole or not at all; it names the segments it replaces.
 * Rejects with DbError, and with what the file system says.
 */
export async function compact (options: CompactOptions): Promise<Segment> {
  const { openDb, folder, segments } = options
  const first = await firstToKeep(options)
  const path = join(folder, segmentName(first))
  const temporary = `${path}.tmp`
  await removeSegment(temporary)
  const db = await openDb(temporary, true)
  let contents: Contents | null
  try {
    for (const sql of ['PRAGMA journal_mode = OFF', 'PRAGMA synchronous = OFF', ...SCHEMA]) await db.run(sql)
    const snapshots = await snapshotPlan(options, first)
    for (const segment of segments) await copyFrom(db, segment, first, snapshots)
    contents = await contentsOf(db)
  } catch (error) {
    await db.close().catch(() => {})
    await removeSegment(temporary).catch(() => {})
    throw error
  }
  await db.close()
  await outlive(temporary)
  await rename(temporary, path)
  const { entries = null, newestMs = 0 } = contents ?? {}
  return { path, first, entries, newestMs, bytes: await bytesOf(path) }
}

/** Index of the oldest entry that stays: so many of the newest are kept. No segment has that name already. */
async function firstToKeep ({ openDb, limits, segments }: CompactOptions): Promise<number> {
  let entries = limits.keepEntries
  let first: number | null = null
  for (const { path } of [...segments].reverse()) {
    const [found] = await withDb(openDb, path, (db) => db.all<{ lo: number | null, kept: number }>(
      'SELECT min(idx) AS lo, count(*) AS kept FROM ' +
      '(SELECT idx FROM ev ORDER BY idx DESC LIMIT ?)', [entries]))
    first = found!.lo ?? first
    entries -= found!.kept
    if (entries === 0) break
  }
  first ??= segments.at(-1)!.first
  while (segments.some((segment) => segment.first === first)) first++
  return first
}

interface SnapshotPlan {
  /** Snapshots from this index on are copied: the newest before the first entry, and all later ones. */
  from: number
  /** Only one in so many. */
  step: number
}

/** Snapshots may have a quarter of the room; when there are more, they are thinned out evenly. */
async function snapshotPlan (
  { openDb, limits, segments }: CompactOptions, first: number
): Promise<SnapshotPlan> {
  let from: number | null = null
  let bytes = 0
  for (const { path } of [...segments].reverse()) {
    type Row = { before: number | null, bytes: number | null }
    const [found] = await withDb(openDb, path, (db) => db.all<Row>(
      'SELECT (SELECT max(idx) FROM snap WHERE idx < ?1) AS before, ' +
      '(SELECT sum(length(body)) FROM snap WHERE idx >= ?1) AS bytes', [first]))
    from ??= found!.before
    bytes += found!.bytes ?? 0
  }
  return { from: from ?? first, step: Math.max(1, Math.ceil(bytes / (limits.ringBytes / 4))) }
}

async function copyFrom (db: Db, segment: Segment, first: number, plan: SnapshotPlan): Promise<void> {
  await db.run('ATTACH ? AS source', [segment.path])
  await db.run('BEGIN')
  try {
    await copyRows(db, first, plan)
  } catch (error) {
    // The copy is new: it is the source that is damaged.
    if (!(error instanceof DbError) || !error.corrupt) throw error
    throw new DbError(`${segment.path}: ${error.message}`, error.code, segment.path)
  }
  await db.run('INSERT OR IGNORE INTO replaced VALUES(?)', [segmentName(segment.first)])
  await db.run('COMMIT')
  await db.run('DETACH source')
}

/** Everything that is to be kept, out of the attached `source`. */
async function copyRows (db: Db, first: number, plan: SnapshotPlan): Promise<void> {
  await db.run('INSERT OR IGNORE INTO ev SELECT * FROM source.ev WHERE idx >= ? ORDER BY idx', [first])
  await db.run('INSERT INTO snap(idx, at, sid, cause, body) ' +
    'SELECT idx, at, sid, cause, body FROM source.snap ' +
    'WHERE idx = ?1 OR (idx > ?1 AND n % ?2 = 0) ORDER BY n', [plan.from, plan.step])
  await db.run('INSERT OR IGNORE INTO gap SELECT * FROM source.gap WHERE hi >= ?', [first])
}

/** Opens an existing file for this work alone. Rejects with DbError, and what the work does. */
export async function withDb<T> (openDb: OpenDb, path: string, work: (db: Db) => Promise<T>): Promise<T> {
  const db = await openDb(path, false)
  try { return await work(db) } finally { await db.close() }
}
