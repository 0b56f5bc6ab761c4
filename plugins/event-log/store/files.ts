import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  bytesOf, contentsOf, cutBehind, EMPTY, isSound, moveFile, openForWriting, removeFile, seal, snapshotBytes,
  syncFolder, thinSnapshots, writeGroup
} from './file.js'
import { merged, rangeOf, skipped } from './gaps.js'
import { gapsOf, sizeOf } from './queue.js'
import { DbError } from './sqlite.js'
import type { Contents, Group } from './file.js'
import type { Range } from './gaps.js'
import type { StoreLimits } from './limits.js'
import type { Op } from './queue.js'
import type { Db, OpenDb } from './sqlite.js'
import type { Damaged, Snapshot } from './types.js'

/** A file and what is in it. */
export interface LogFile extends Contents {
  readonly path: string
  /** The number in its name: no entry in it has a smaller index. */
  readonly first: number
  bytes: number
}

/** The file that is written to. */
interface Active {
  readonly db: Db
  readonly file: LogFile
  /** Bytes of its snapshots; null until they are asked for. */
  snapshotBytes: number | null
  /** Written since its size was last looked at. */
  unmeasured: number
}

export interface LogFilesOptions {
  readonly folder: string
  readonly openDb: OpenDb
  readonly limits: StoreLimits
  /** Wall time, ms: part of the name of what is set aside. */
  readonly now: () => number
  /** No more readers of this file, before it is moved, deleted or closed for good. */
  readonly release: (path: string) => Promise<void>
  readonly onDamaged: (damaged: Damaged) => void
}

const NOTHING: Group = { rows: [], gaps: [], snapshots: [] }

/** Snapshots may have this part of a file. */
const SNAPSHOT_SHARE = 1 / 4

/** All files of the log, oldest first. The last one may be open for writing. One caller at a time. */
export class LogFiles {
  readonly list: LogFile[] = []
  /** Files that only earlier versions made, as the scan found them. */
  unused: string[] = []
  /** First index of the newest file, if the scan found that one damaged. */
  damagedFrom: number | null = null
  readonly #options: LogFilesOptions
  #active: Active | null = null
  /** The next thing is written to a new file. */
  #fresh = false
  /** The newest snapshot: each file begins with it, so that none needs the one before. */
  #snapshot: Snapshot | null = null

  constructor (options: LogFilesOptions) { this.#options = options }

  /** Newest index that is on the disk. */
  get tail (): number { return this.list.findLast(({ entries }) => entries !== null)?.entries![1] ?? 0 }

  /** Oldest index that is on the disk; null when there is none. */
  get head (): number | null { return this.list.find(({ entries }) => entries !== null)?.entries![0] ?? null }

  get bytes (): number { return this.list.reduce((sum, { bytes }) => sum + bytes, 0) }

  /** Indices between the oldest and the newest that are in no file. */
  get gaps (): Range[] {
    const ranges: Range[] = []
    let tail: number | null = null
    for (const { entries, prev, gaps } of this.list) {
      ranges.push(...gaps)
      if (entries === null) continue
      if (tail !== null && prev > tail) ranges.push([tail + 1, prev])
      tail = entries[1]
    }
    return merged(ranges)
  }

  /**
   * Reads what is in the folder. Rejects when something cannot be read for want of room or the like; the rest
   * is in the list all the same.
   */
  async scan (): Promise<void> {
    const { folder } = this.#options
    await this.close()
    this.list.length = 0
    const names = await readdir(folder)
    // What an earlier version had not finished copying.
    const rest = names.filter((name) => /^seg-\d+\.db(\.gz)?\.tmp/.test(name))
    for (const name of rest) await removeFile(join(folder, name)).catch(() => {})
    const firsts = names.flatMap((name) => /^seg-(\d{1,16})\.db$/.exec(name)?.slice(1).map(Number) ?? [])
      .sort((a, b) => b - a)
    let failure: unknown = null
    for (const first of firsts) {
      await this.#look(first, first === firsts[0]).catch((error: unknown) => { failure ??= error })
    }
    this.unused = names.filter((name) => /^(old-\d+\.db|seg-\d+\.db\.gz)$/.test(name))
    if (failure !== null) throw failure as Error
  }

  /** Looks into a file, the newest first. A file ends where the next one begins: that has the rest again. */
  async #look (first: number, newest: boolean): Promise<void> {
    const { openDb, folder } = this.#options
    const path = join(folder, `seg-${first}.db`)
    let db: Db | null = null
    try {
      db = await openDb(path, false)
      if (newest && !await isSound(db)) {
        throw new DbError(`${path}: PRAGMA quick_check finds it damaged`, 'SQLITE_CORRUPT', path)
      }
      const contents = await contentsOf(db)
      await db.close()
      if (contents === null) {
        await removeFile(path)
        return
      }
      const next = this.list[0]?.first ?? Infinity
      const entries: Range | null = contents.entries === null || contents.entries[0] >= next
        ? null
        : [contents.entries[0], Math.min(contents.entries[1], next - 1)]
      this.list.unshift({ ...contents, path, first, entries, bytes: await bytesOf(path) })
    } catch (error) {
      await db?.close().catch(() => {})
      if (!(error instanceof DbError) || !error.corrupt) throw error
      if (this.list.length === 0) this.damagedFrom = first
      await this.#setAside(path, first, error)
    }
  }

  /** Carries out a group. Rejects with DbError; nothing of it is done then. */
  async write (ops: readonly Op[]): Promise<void> {
    const [only] = ops
    if (only?.type === 'cut') return await this.#cut(only.after)
    const rows = ops.flatMap((op) => op.type === 'append' ? [op.row] : [])
    const noted = gapsOf(ops)
    const gaps = [...noted, ...skipped(rows.map(({ entry }) => entry), this.tail)]
    const snapshots = ops.flatMap((op) => op.type === 'snapshot' ? [op.snapshot] : [])
    if (rows.length + gaps.length + snapshots.length === 0) return
    const first = rows[0]?.entry.idx ?? (noted.at(-1)?.to ?? this.tail) + 1
    const active = this.#active ?? await this.#open(first)
    if (snapshots.length > 0) await this.#makeRoom(active, snapshots)
    await writeGroup(active.db, { rows, gaps, snapshots })
    active.unmeasured += ops.reduce((sum, op) => sum + sizeOf(op), 0)
    this.#snapshot = snapshots.at(-1) ?? this.#snapshot
    const { file } = active
    if (gaps.length > 0) file.gaps = merged([...file.gaps, ...gaps.map(rangeOf)])
    const [oldest, newest] = [rows[0]?.entry, rows.at(-1)?.entry]
    if (oldest === undefined || newest === undefined) return
    if (file.entries === null) file.prev = oldest.prev
    file.entries = [file.entries?.[0] ?? oldest.idx, newest.idx]
    file.count += rows.length
    file.newestMs = Math.max(file.newestMs, ...rows.map(({ ms }) => ms))
  }

  /** Before snapshots are written: thins out those that are there when they take too much of the file. */
  async #makeRoom (active: Active, snapshots: readonly Snapshot[]): Promise<void> {
    active.snapshotBytes ??= await snapshotBytes(active.db)
    if (active.snapshotBytes > this.#options.limits.fileBytes * SNAPSHOT_SHARE) {
      await thinSnapshots(active.db)
      active.snapshotBytes = await snapshotBytes(active.db)
    }
    active.snapshotBytes += snapshots.reduce((sum, { body }) => sum + body.length, 0)
  }

  /** The newest file while it has room, else a new one for entries from `first` on. */
  async #open (first: number): Promise<Active> {
    const { folder, limits } = this.#options
    const newest = this.list.at(-1)
    if (!this.#fresh && newest !== undefined && newest.bytes < limits.fileBytes) {
      return await this.#use(newest, false)
    }
    const path = join(folder, `seg-${first}.db`)
    const known = newest?.path === path
    const file = known ? newest : { ...EMPTY, path, first, bytes: 0 }
    const active = await this.#use(file, true)
    if (!known) this.list.push(file)
    this.#fresh = false
    await syncFolder(folder)
    if (this.#snapshot !== null) await writeGroup(active.db, { ...NOTHING, snapshots: [this.#snapshot] })
    return active
  }

  async #use (file: LogFile, make: boolean): Promise<Active> {
    const { openDb, release } = this.#options
    await release(file.path)
    const db = await openForWriting(openDb, file.path, make)
    return this.#active = { db, file, snapshotBytes: null, unmeasured: 0 }
  }

  /**
   * Looks at the sizes when enough was written: a full file is closed, and the oldest deleted while all of
   * them are too large. Rejects when a file cannot be deleted.
   */
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

  /** Takes away everything behind `after`. Rejects with DbError. */
  async #cut (after: number): Promise<void> {
    for (let last = this.list.at(-1); last !== undefined && last.first > after; last = this.list.at(-1)) {
      await this.#remove(last)
    }
    const newest = this.list.at(-1)
    if (this.#snapshot !== null && this.#snapshot.idx > after) this.#snapshot = null
    if (newest === undefined) return
    const { db } = this.#active ?? await this.#use(newest, false)
    await cutBehind(db, after)
    Object.assign(newest, await contentsOf(db) ?? EMPTY)
  }

  async #remove (file: LogFile): Promise<void> {
    if (file === this.#active?.file) await this.close()
    await this.#options.release(file.path)
    await removeFile(file.path)
    this.list.splice(this.list.indexOf(file), 1)
  }

  /**
   * Sets a damaged file aside: the one that the error names, else the one that is written to. False when
   * there is none, or it cannot be moved.
   */
  async setAside (error: DbError): Promise<boolean> {
    const path = error.path ?? this.#active?.file.path
    const file = this.list.find((one) => one.path === path)
    if (file === undefined) return false
    if (file === this.#active?.file) await this.close()
    await this.#options.release(file.path)
    this.list.splice(this.list.indexOf(file), 1)
    return await this.#setAside(file.path, file.first, error).then(() => true, () => false)
  }

  async #setAside (path: string, from: number, { message }: DbError): Promise<void> {
    const file = `${path}.corrupt-${this.#options.now()}`
    await moveFile(path, file)
    this.#options.onDamaged({ file, error: message, from })
  }

  /** The next thing is written to a new file. */
  async startAnew (): Promise<void> {
    await this.close()
    this.#fresh = true
  }

  /** Closes the file that is written to. What fails here was written all the same. */
  async close (): Promise<void> {
    const active = this.#active
    if (active === null) return
    this.#active = null
    await this.#options.release(active.file.path)
    await seal(active.db).catch(() => {})
    active.file.bytes = await bytesOf(active.file.path)
  }
}
