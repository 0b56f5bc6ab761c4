import { deadline, raceAbort, type Clock } from '../../../kernel/index.js'
import type { Entry } from '../log/entries.js'
import type { LogFile } from './segments.js'
import type { Db, OpenDb, SqlValue } from './sqlite-driver.js'
import type { IndexOrTime, Snapshot, StoreQuery } from './types.js'

export class SlowDiskError extends Error { override readonly name = 'SlowDiskError' }

/** Maximum entries in one page. */
const PAGE_ROWS = 1000

/** Number of rows to parse before yielding to the event loop. */
const BATCH = 100

export interface ReadsOptions {
  readonly openDb: OpenDb
  readonly clock: Clock
  readonly deadlineMs: number
  readonly files: () => readonly LogFile[]
}

/** Reads the files one statement at a time: a hung disk blocks one thread, other reads are refused. */
export class Reads {
  readonly #options: ReadsOptions
  #last: Promise<unknown> = Promise.resolve()
  /** True while a statement that exceeded its deadline has not returned. */
  #stuck = false
  #running: Db | null = null

  constructor (options: ReadsOptions) { this.#options = options }

  /** A page of entries up to index `most`. Rejects with SlowDiskError, DbError. */
  async page (query: StoreQuery, most: number): Promise<Entry[]> {
    const { after, until = most, newest = false, sinceMs = -Infinity } = query
    const limit = Math.min(Math.max(1, query.limit), PAGE_ROWS)
    const top = Math.min(until, most)
    const bodies = await this.#work(async () => {
      const found: string[] = []
      const files = this.#options.files().filter(({ entries, newestMs }) =>
        entries !== null && entries[0] <= top && entries[1] > after && newestMs >= sinceMs)
      for (const { path } of newest ? files.reverse() : files) {
        const { sql, values } = select(query, top, limit - found.length)
        const rows = await this.#all<{ body: string }>(path, sql, values)
        found.push(...rows.map(({ body }) => body))
        if (found.length >= limit) break
      }
      return newest ? found.reverse() : found
    })
    return await parsed(bodies)
  }

  /** The newest snapshot at or before `at`, up to index `most`. Rejects with SlowDiskError, DbError. */
  async snapshot (at: IndexOrTime, most: number): Promise<Snapshot | null> {
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

  /** Resolves when the current read has ended, or immediately if that read is stuck. */
  async done (): Promise<void> {
    if (!this.#stuck) await this.#last
  }

  async #all<T> (path: string, sql: string, values: readonly SqlValue[]): Promise<T[]> {
    const db = await this.#options.openDb(path, false)
    this.#running = db
    try {
      return await db.all<T>(sql, values)
    } finally {
      this.#running = null
      await db.close().catch(() => {})
    }
  }

  /** Runs reads one at a time, each with a deadline. */
  async #work<T> (read: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(async () => {
      if (this.#stuck) throw new SlowDiskError('an earlier read of the event log is still in progress')
      return await this.#withDeadline(read)
    })
    this.#last = mine.catch(() => {})
    return await mine
  }

  async #withDeadline<T> (read: () => Promise<T>): Promise<T> {
    const { clock, deadlineMs } = this.#options
    const work = read().finally(() => { this.#stuck = false })
    return await withTimeout(clock, deadlineMs, work, () => {
      this.#stuck = true
      this.#running?.interrupt()
      return new SlowDiskError(`the event log was not read within ${deadlineMs} ms`)
    })
  }
}

/** `+at` keeps SQLite from using the index on `at`: rows are read in the order of `idx`. */
function select (query: StoreQuery, top: number, limit: number): { sql: string, values: SqlValue[] } {
  const { after, kinds, origins, sinceMs, newest = false } = query
  const wants: [sql: string, value: SqlValue | undefined][] = [
    ['idx > ?', after], ['idx <= ?', top], ['+at >= ?', sinceMs],
    ['kind IN (SELECT value FROM json_each(?))', kinds && JSON.stringify(kinds)],
    ['origin IN (SELECT value FROM json_each(?))', origins && JSON.stringify(origins)]
  ]
  const given = wants.filter((want): want is [string, SqlValue] => want[1] !== undefined)
  const where = given.map(([sql]) => sql).join(' AND ')
  return {
    sql: `SELECT body FROM ev WHERE ${where} ORDER BY idx${newest ? ' DESC' : ''} LIMIT ?`,
    values: [...given.map(([, value]) => value), limit]
  }
}

/** Parses a long page in pieces, so that it does not block other work. */
async function parsed (bodies: readonly string[]): Promise<Entry[]> {
  const entries: Entry[] = []
  for (let i = 0; i < bodies.length; i += BATCH) {
    if (i > 0) await new Promise((resolve) => { setImmediate(resolve) })
    entries.push(...bodies.slice(i, i + BATCH).map(entryOf).filter((entry) => entry !== null))
  }
  return entries
}

/** The entry in a row; null for a damaged row, whose gap the next entry's `prev` reveals. */
function entryOf (body: string): Entry | null {
  try { return JSON.parse(body) as Entry } catch { return null }
}

/** Resolves with the result of `work`; after `ms`, rejects with the error that `late` returns. */
export async function withTimeout<T> (
  clock: Clock, ms: number, work: Promise<T>, late: () => Error
): Promise<T> {
  const { signal, stop } = deadline(clock, ms, late)
  return await raceAbort(work, signal).finally(stop)
}
