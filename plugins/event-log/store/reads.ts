import type { Clock } from '../../../kernel/index.js'
import type { Entry } from '../log/entries.js'
import type { LogFile } from './files.js'
import type { Db, OpenDb, SqlValue } from './sqlite.js'
import type { Moment, Snapshot, StoreQuery } from './types.js'

/** The disk did not answer in time. */
export class SlowDiskError extends Error {
  override readonly name = 'SlowDiskError'
}

/** Rows that are parsed without letting other work run. */
const BATCH = 100

export interface ReadsOptions {
  readonly openDb: OpenDb
  readonly clock: Clock
  /** A page that takes longer is given up, ms. */
  readonly deadlineMs: number
  /** The files as they are now, oldest first. */
  readonly files: () => readonly LogFile[]
}

/**
 * Reads the files through connections of its own, one statement at a time. A disk that does not answer thus
 * blocks one thread, and further reads are refused at once.
 */
export class Reads {
  readonly #options: ReadsOptions
  readonly #open = new Map<string, Db>()
  #last: Promise<unknown> = Promise.resolve()
  /** A statement ran past its deadline and has not come back. */
  #stuck = false
  #running: Db | null = null

  constructor (options: ReadsOptions) { this.#options = options }

  /** A page of entries up to index `most`. Rejects with SlowDiskError, DbError. */
  async page (query: StoreQuery, most: number): Promise<Entry[]> {
    const { after, until = most, newest = false, sinceMs = -Infinity, limit } = query
    const top = Math.min(until, most)
    const bodies = await this.#work(async () => {
      const found: string[] = []
      const files = this.#options.files().filter(({ entries, newestMs }) =>
        entries !== null && entries[0] <= top && entries[1] > after && newestMs >= sinceMs)
      for (const { path, entries } of newest ? files.reverse() : files) {
        const { sql, values } = select(query, Math.min(top, entries![1]), limit - found.length)
        const rows = await this.#all<{ body: string }>(path, sql, values)
        found.push(...rows.map(({ body }) => body))
        if (found.length >= limit) break
      }
      return newest ? found.reverse() : found
    })
    return await parsed(bodies)
  }

  /** The newest snapshot before, up to index `most`. Rejects with SlowDiskError, DbError. */
  async snapshot (at: Moment, most: number): Promise<Snapshot | null> {
    const [column, value] = 'idx' in at ? ['idx', at.idx] as const : ['at', at.ms] as const
    return await this.#work(async () => {
      let best: Snapshot | null = null
      for (const { path } of [...this.#options.files()].reverse()) {
        const [found] = await this.#all<Snapshot>(path, 'SELECT idx, at, sid, cause, body FROM snap ' +
          `WHERE idx <= ? AND ${column} <= ? ORDER BY ${column} DESC, n DESC LIMIT 1`, [most, value])
        if (found !== undefined && (best === null || found[column] > best[column])) best = found
      }
      return best
    })
  }

  /** Closes the connection to a file. Waits for the statement that is running, unless that is stuck. */
  async release (path: string): Promise<void> {
    if (!this.#stuck) await this.#last.catch(() => {})
    const db = this.#open.get(path)
    this.#open.delete(path)
    if (this.#stuck) db?.close().catch(() => {})
    else await db?.close().catch(() => {})
  }

  async close (): Promise<void> {
    for (const path of [...this.#open.keys()]) await this.release(path)
  }

  async #all<T> (path: string, sql: string, values: readonly SqlValue[]): Promise<T[]> {
    let db = this.#open.get(path)
    if (db === undefined) {
      db = await this.#options.openDb(path, false)
      this.#open.set(path, db)
    }
    this.#running = db
    try {
      return await db.all<T>(sql, values)
    } finally {
      this.#running = null
    }
  }

  /** One at a time, each with a deadline. */
  async #work<T> (read: () => Promise<T>): Promise<T> {
    const turn = this.#last.catch(() => {})
    const mine = turn.then(async () => {
      if (this.#stuck) throw new SlowDiskError('an earlier read of the event log has not come back')
      return await this.#withDeadline(read)
    })
    this.#last = mine
    return await mine
  }

  async #withDeadline<T> (read: () => Promise<T>): Promise<T> {
    const { clock, deadlineMs } = this.#options
    const work = read().finally(() => { this.#stuck = false })
    return await inTime(clock, deadlineMs, work, () => {
      this.#stuck = true
      this.#running?.interrupt()
      return new SlowDiskError(`the event log was not read within ${deadlineMs} ms`)
    })
  }
}

/** `+at` keeps SQLite from using the index on `at`: rows are read in the order of `idx`. */
function select (query: StoreQuery, top: number, limit: number): { sql: string, values: SqlValue[] } {
  const { after, kinds, origins, sinceMs, newest = false } = query
  const list = (column: string): string => ` AND ${column} IN (SELECT value FROM json_each(?))`
  const sql = 'SELECT body FROM ev WHERE idx > ? AND idx <= ?' +
    (sinceMs === undefined ? '' : ' AND +at >= ?') +
    (kinds === undefined ? '' : list('kind')) + (origins === undefined ? '' : list('origin')) +
    ` ORDER BY idx${newest ? ' DESC' : ''} LIMIT ?`
  return {
    sql,
    values: [after, top, ...(sinceMs === undefined ? [] : [sinceMs]),
      ...[kinds, origins].filter((names) => names !== undefined).map((names) => JSON.stringify(names)), limit]
  }
}

/** Parses a long page in pieces, so that other work does not wait for it. */
async function parsed (bodies: readonly string[]): Promise<Entry[]> {
  const entries: Entry[] = []
  for (let i = 0; i < bodies.length; i += BATCH) {
    if (i > 0) await new Promise((resolve) => { setImmediate(resolve) })
    entries.push(...bodies.slice(i, i + BATCH).map(entryOf).filter((entry) => entry !== null))
  }
  return entries
}

/** Null for a damaged row, which is left out: the `prev` of the next entry shows that one is missing. */
function entryOf (body: string): Entry | null {
  try {
    return JSON.parse(body) as Entry
  } catch {
    return null
  }
}

/** The result of the work. Rejects with what `late` returns when that takes longer than `ms`. */
export async function inTime<T> (
  clock: Clock, ms: number, work: Promise<T>, late: () => Error
): Promise<T> {
  let cancel = (): void => {}
  const deadline = new Promise<never>((_resolve, reject) => {
    cancel = clock.after(ms, () => { reject(late()) })
  })
  try {
    return await Promise.race([work, deadline])
  } finally {
    cancel()
  }
}
