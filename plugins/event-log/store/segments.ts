import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  bytesOf, contentsOf, deleteAfter, passesQuickCheck, moveFile, openForWriting, removeFile, seal,
  thinSnapshots, writeGroup, type Contents
} from './segment.js'
import { merged, skipped, type Range } from './gaps.js'
import { rowsOf, sizeOf, type Op } from './queue.js'
import { DbError, type Db, type OpenDb } from './sqlite-driver.js'
import type { StoreLimits, Damaged, Snapshot } from './types.js'

export interface LogFile extends Contents {
  readonly path: string
  /** The number in the file's name; no entry in the file has a smaller index. */
  readonly first: number
  bytes: number
}

interface Active { readonly db: Db, readonly file: LogFile, unmeasured: number }

export interface LogFilesOptions {
  readonly folder: string
  readonly openDb: OpenDb
  readonly limits: StoreLimits
  /** Wall time in ms, used in the name of a damaged file that is set aside. */
  readonly now: () => number
  /** Resolves when no read is in progress; SQLite changes a file's journal only when it has no readers. */
  readonly readsDone: () => Promise<void>
  readonly onDamaged: (damaged: Damaged) => void
}

const EMPTY = { entries: null, prev: 0, count: 0, newestMs: 0 }

/** Maximum fraction of a file's size that snapshots may take. */
const SNAPSHOT_SHARE = 1 / 4

/** All files of the log, oldest first. The last one may be open for writing. Calls must not overlap. */
export class LogFiles {
  readonly list: LogFile[] = []
  /** First index of the newest file, if the scan found it damaged. */
  damagedFrom: number | null = null
  readonly #options: LogFilesOptions
  #active: Active | null = null
  #snapshot: Snapshot | null = null

  constructor (options: LogFilesOptions) { this.#options = options }

  get tail (): number { return this.list.findLast(({ entries }) => entries !== null)?.entries![1] ?? 0 }

  get head (): number | null { return this.list.find(({ entries }) => entries !== null)?.entries![0] ?? null }

  get bytes (): number { return this.list.reduce((sum, { bytes }) => sum + bytes, 0) }

  /** Missing indices: those below the newest index that are in no file. */
  get gaps (): Range[] {
    const ranges: Range[] = []
    let tail = 0
    for (const { entries, prev, gaps } of this.list) {
      ranges.push(...gaps)
      if (entries === null) continue
      ranges.push([tail + 1, prev])
      tail = entries[1]
    }
    return merged(ranges)
  }

  /** Reads all files in the folder. Rejects if one is unreadable; `list` then contains the others. */
  async scan (): Promise<void> {
    await this.close()
    this.list.length = 0
    const names = await readdir(this.#options.folder)
    const firsts = names.flatMap((name) => /^seg-(\d{1,16})\.db$/.exec(name)?.slice(1).map(Number) ?? [])
      .sort((a, b) => b - a)
    let failure: unknown = null
    for (const first of firsts) {
      await this.#scanFile(first, first === firsts[0]).catch((error: unknown) => { failure ??= error })
    }
    if (failure !== null) throw failure as Error
  }

  /** Scans a file and adds it to the list; must be called for the newest file first and the oldest last. */
  async #scanFile (first: number, newest: boolean): Promise<void> {
    const path = this.#path(first)
    let db: Db | null = null
    try {
      db = await this.#options.openDb(path, false)
      if (newest && !await passesQuickCheck(db)) {
        throw new DbError(`${path}: PRAGMA quick_check finds it damaged`, 'SQLITE_CORRUPT', path)
      }
      const contents = await contentsOf(db)
      await db.close()
      if (contents === null) await removeFile(path)
      else this.list.unshift({ ...contents, path, first, bytes: await bytesOf(path) })
    } catch (error) {
      await db?.close().catch(() => {})
      if (!(error instanceof DbError) || !error.corrupt) throw error
      if (this.list.length === 0) this.damagedFrom = first
      await this.#moveAside(path, first, error)
    }
  }

  #path (first: number): string { return join(this.#options.folder, `seg-${first}.db`) }

  /** Writes a group as a whole; if it rejects with DbError, nothing of the group has been written. */
  async write (ops: readonly Op[]): Promise<void> {
    const [only] = ops
    if (only?.type === 'cut') return await this.#cut(only.after)
    const rows = rowsOf(ops)
    const snapshots = ops.flatMap((op) => op.type === 'snapshot' ? [op.snapshot] : [])
    const [oldest, newest] = [rows[0], rows.at(-1)]
    if (rows.length + snapshots.length === 0) return
    const gaps = skipped(rows, this.tail)
    const active = this.#active ?? await this.#open(oldest?.idx ?? this.tail + 1)
    if (snapshots.length > 0) await thinSnapshots(active.db, this.#options.limits.fileBytes * SNAPSHOT_SHARE)
    await writeGroup(active.db, { rows, gaps, snapshots })
    active.unmeasured += ops.reduce((sum, op) => sum + sizeOf(op), 0)
    this.#snapshot = snapshots.at(-1) ?? this.#snapshot
    if (oldest === undefined || newest === undefined) return
    const { file } = active
    file.gaps.push(...gaps)
    if (file.entries === null) file.prev = oldest.prev
    file.entries = [file.entries?.[0] ?? oldest.idx, newest.idx]
    file.count += rows.length
    file.newestMs = Math.max(file.newestMs, ...rows.map(({ ms }) => ms))
  }

  /** The newest file if it is not full, else a new one for entries from `first` on. */
  async #open (first: number): Promise<Active> {
    const newest = this.list.at(-1)
    const hasSpace = newest !== undefined && newest.bytes < this.#options.limits.fileBytes
    return hasSpace ? await this.#use(newest, false) : await this.begin(first)
  }

  /** Starts a new file for entries from `first` on. Rejects with DbError. */
  async begin (first: number): Promise<Active> {
    await this.close()
    const path = this.#path(first)
    const known = this.list.find((one) => one.path === path)
    const file = known ?? { ...EMPTY, gaps: [], path, first, bytes: 0 }
    const active = await this.#use(file, true)
    if (known === undefined) this.list.push(file)
    const folder = await open(this.#options.folder, 'r')
    await folder.sync().finally(() => folder.close())
    const snapshots = this.#snapshot === null ? [] : [this.#snapshot]
    await writeGroup(active.db, { rows: [], gaps: [], snapshots })
    return active
  }

  async #use (file: LogFile, make: boolean): Promise<Active> {
    await this.#options.readsDone()
    const db = await openForWriting(this.#options.openDb, file.path, make)
    return this.#active = { db, file, unmeasured: 0 }
  }

  /** Closes a full file and deletes the oldest files while the total is too large. Rejects if that fails. */
  async rotate (): Promise<void> {
    const { fileBytes, totalBytes, keepEntries } = this.#options.limits
    const active = this.#active
    if (active === null || active.unmeasured < fileBytes / 32) return
    active.unmeasured = 0
    active.file.bytes = await bytesOf(active.file.path)
    if (active.file.bytes < fileBytes) return
    await this.close()
    let entries = this.list.reduce((sum, { count }) => sum + count, 0)
    for (let oldest = this.list[0]; oldest !== undefined; oldest = this.list[0]) {
      entries -= oldest.count
      if (this.bytes <= totalBytes || entries < keepEntries) return
      await this.#remove(oldest)
    }
  }

  async #cut (after: number): Promise<void> {
    for (let last = this.list.at(-1); last !== undefined && last.first > after; last = this.list.at(-1)) {
      await this.#remove(last)
    }
    const newest = this.list.at(-1)
    if (this.#snapshot !== null && this.#snapshot.idx > after) this.#snapshot = null
    if (newest === undefined) return
    const { db } = this.#active ?? await this.#use(newest, false)
    await deleteAfter(db, after)
    Object.assign(newest, await contentsOf(db))
  }

  async #remove (file: LogFile): Promise<void> {
    if (file === this.#active?.file) await this.close()
    await removeFile(file.path)
    this.list.splice(this.list.indexOf(file), 1)
  }

  /** Sets aside the error's file, or the active one. False if there is no such file or it cannot be moved. */
  async setAside (error: DbError): Promise<boolean> {
    const path = error.path ?? this.#active?.file.path
    const file = this.list.find((one) => one.path === path)
    if (file === undefined) return false
    if (file === this.#active?.file) await this.close()
    this.list.splice(this.list.indexOf(file), 1)
    return await this.#moveAside(file.path, file.first, error).then(() => true, () => false)
  }

  async #moveAside (path: string, from: number, { message }: DbError): Promise<void> {
    const file = `${path}.corrupt-${this.#options.now()}`
    await moveFile(path, file)
    this.#options.onDamaged({ file, error: message, from })
  }

  async close (): Promise<void> {
    const active = this.#active
    if (active === null) return
    this.#active = null
    await this.#options.readsDone()
    await seal(active.db)
    active.file.bytes = await bytesOf(active.file.path)
  }
}
