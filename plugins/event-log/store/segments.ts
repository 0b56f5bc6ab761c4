import { readdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { compact, withDb } from './compact.js'
import { oldName, readName, segmentName } from './names.js'
import {
  bytesOf, contentsOf, cutBehind, isSound, moveSegment, openForWriting, outlive, removeSegment, seal
} from './segment.js'
import { DbError } from './sqlite.js'
import type { StoreLimits } from './limits.js'
import type { NumberedFile, StoreFile } from './names.js'
import type { Range } from './ranges.js'
import type { Db, OpenDb } from './sqlite.js'

/** A segment file and what is in it. */
export interface Segment {
  readonly path: string
  /** The number in its name: no entry in it has a smaller index. */
  readonly first: number
  /** Indices of its oldest and newest entry; null while it has none. */
  entries: Range | null
  /** Newest time of an entry, ms since 1970. */
  newestMs: number
  bytes: number
}

/** A damaged file that was set aside. */
export interface Damaged {
  readonly file: string
  readonly error: string
  /** Indices that may have been in it; the second is null when nobody knows. */
  readonly from: number
  readonly to: number | null
}

export interface SegmentSetOptions {
  readonly folder: string
  readonly openDb: OpenDb
  readonly limits: StoreLimits
  /** Wall time, ms: part of the name of what is set aside. */
  readonly now: () => number
  /** No more readers of this file, before it is moved or closed for good. */
  readonly release: (path: string) => Promise<void>
}

/** All segment files, oldest first. The last one may be open for writing. One caller at a time. */
export class SegmentSet {
  readonly list: Segment[] = []
  /** As the scan found them. */
  readonly gaps: Range[] = []
  readonly damaged: Damaged[] = []
  /** What lies behind this index is to go as soon as that is possible. */
  stale: number | null = null
  readonly #options: SegmentSetOptions
  #active: Db | null = null
  #activePath: string | null = null
  #unchecked = 0

  constructor (options: SegmentSetOptions) { this.#options = options }

  /** Newest index that is on the disk. */
  get tail (): number { return this.list.findLast((segment) => segment.entries !== null)?.entries![1] ?? 0 }

  /** Oldest index that is on the disk; null when there is none. */
  get head (): number | null {
    return this.list.find((segment) => segment.entries !== null)?.entries![0] ?? null
  }

  get bytes (): number { return this.list.reduce((sum, { bytes }) => sum + bytes, 0) }

  /**
   * Reads what is in the folder. Rejects when something cannot be read for want of room or the like; the rest
   * is in the list all the same.
   */
  async scan (): Promise<void> {
    const { folder } = this.#options
    await this.closeActive()
    this.list.length = 0
    this.gaps.length = 0
    const files = (await readdir(folder)).map(readName).filter((file) => file !== null)
    for (const { type, name } of files) if (type === 'rest') await unlink(join(folder, name)).catch(() => {})
    const isSegment = (file: StoreFile): file is NumberedFile => file.type === 'segment'
    const segments = files.filter(isSegment).sort((a, b) => b.first - a.first)
    const replaced = new Set<string>()
    let failure: unknown = null
    for (const [i, { first, name }] of segments.entries()) {
      await this.#look(first, name, i === 0, replaced).catch((error: unknown) => { failure ??= error })
    }
    for (const name of replaced) await this.#retire(name)
    this.list.sort((a, b) => a.first - b.first)
    this.gaps.sort((a, b) => a[0] - b[0])
    if (failure !== null) throw failure as Error
  }

  async #look (first: number, name: string, newest: boolean, replaced: Set<string>): Promise<void> {
    const { folder, openDb } = this.#options
    const path = join(folder, name)
    let db: Db | null = null
    try {
      db = await openDb(path, false)
      if (newest && !await isSound(db)) {
        throw new DbError(`${path}: PRAGMA quick_check finds it damaged`, 'SQLITE_CORRUPT', path)
      }
      const contents = await contentsOf(db)
      await db.close()
      if (contents === null) {
        await removeSegment(path)
        return
      }
      for (const one of contents.replaced) replaced.add(one)
      this.gaps.push(...contents.gaps)
      const { entries, newestMs } = contents
      this.list.push({ path, first, entries, newestMs, bytes: await bytesOf(path) })
    } catch (error) {
      await db?.close().catch(() => {})
      if (!(error instanceof DbError) || !error.corrupt) throw error
      const next = this.list.reduce((least, segment) => Math.min(least, segment.first), Infinity)
      await this.#setAside(path, error.message, first, next === Infinity ? null : next - 1)
    }
  }

  #use (db: Db, path: string): void {
    this.#active = db
    this.#activePath = path
    this.#unchecked = 0
  }

  async #setAside (path: string, error: string, from: number, to: number | null): Promise<void> {
    const file = `${path}.corrupt-${this.#options.now()}`
    await moveSegment(path, file)
    this.damaged.push({ file, error, from, to })
  }

  /** This segment's newest entries are in another one, or too old: it is no longer read. */
  async #retire (name: string): Promise<void> {
    const file = readName(name)
    const at = this.list.findIndex(({ path }) => path.endsWith(`/${name}`))
    if (file?.type !== 'segment' || at < 0) return
    const [{ path }] = this.list.splice(at, 1) as [Segment]
    if (path === this.#activePath) await this.closeActive()
    await this.#options.release(path)
    await moveSegment(path, join(this.#options.folder, oldName(file.first)))
  }

  /**
   * The segment that is written to: the newest one while it has room, else a new one for entries from `first`
   * on; always a new one when asked for. Rejects with DbError.
   */
  async active (first: number, fresh = false): Promise<{ db: Db, segment: Segment }> {
    const { folder, openDb, limits, release } = this.#options
    if (this.#active === null) {
      const newest = this.list.at(-1)
      const known = !fresh && newest !== undefined && newest.bytes < limits.segmentBytes
      const path = known ? newest.path : join(folder, segmentName(first))
      await release(path)
      this.#use(await openForWriting(openDb, path, !known), path)
      if (!known) await outlive(folder)
      if (!this.list.some((segment) => segment.path === path)) {
        this.list.push({ path, first, entries: null, newestMs: 0, bytes: 0 })
      }
    }
    return { db: this.#active!, segment: this.list.find(({ path }) => path === this.#activePath)! }
  }

  /**
   * So many bytes were written. Closes the segment when it is full, and makes room when all are too large:
   * true when there is something for the archive then. Rejects with DbError.
   */
  async grown (bytes: number): Promise<boolean> {
    const { limits } = this.#options
    this.#unchecked += bytes
    if (this.#unchecked < limits.segmentBytes / 32) return false
    this.#unchecked = 0
    const segment = this.list.find(({ path }) => path === this.#activePath)
    if (segment === undefined) return false
    segment.bytes = await bytesOf(segment.path)
    if (segment.bytes < limits.segmentBytes) return false
    await this.closeActive()
    segment.bytes = await bytesOf(segment.path)
    if (this.bytes <= limits.ringBytes) return false
    await this.compact()
    return true
  }

  /** The newest entries into one segment; the others are for the archive. Rejects when that fails. */
  async compact (): Promise<void> {
    const { folder, openDb, limits, release } = this.#options
    await this.closeActive()
    for (const { path } of this.list) await release(path)
    const made = await compact({ openDb, folder, limits, segments: this.list })
    await outlive(folder)
    const names = this.list.map(({ first }) => segmentName(first))
    for (const name of names) await this.#retire(name)
    this.list.push(made)
    await outlive(folder)
    await withDb(openDb, made.path, (db) => db.run('DELETE FROM replaced'))
  }

  /** Takes away everything behind `after`. Rejects with DbError. */
  async cut (after: number): Promise<void> {
    while ((this.list.at(-1)?.first ?? -1) > after) {
      const { path } = this.list.at(-1)!
      if (path === this.#activePath) await this.closeActive()
      await this.#options.release(path)
      await removeSegment(path)
      this.list.pop()
    }
    const newest = this.list.at(-1)
    if (newest === undefined) return
    if (newest.path !== this.#activePath) {
      await this.#options.release(newest.path)
      this.#use(await openForWriting(this.#options.openDb, newest.path, false), newest.path)
    }
    await cutBehind(this.#active!, after)
    const { entries = null, newestMs = 0 } = await contentsOf(this.#active!) ?? {}
    Object.assign(newest, { entries, newestMs })
  }

  /** The same, when anything can be written again. */
  cutLater (after: number): void {
    if (after < this.tail) this.stale = Math.min(this.stale ?? after, after)
  }

  /** Takes away what is to go, also what is added to that meanwhile. Rejects with DbError. */
  async cutStale (): Promise<void> {
    for (let after = this.stale; after !== null; after = this.stale) {
      await this.cut(after)
      await this.closeActive()
      if (this.stale === after) this.stale = null
    }
  }

  /**
   * Sets a damaged segment aside: the one that the error names, else the one that is written to. False when
   * there is none.
   */
  async abandon ({ path: named, message }: DbError): Promise<boolean> {
    const at = this.list.findIndex(({ path }) => path === (named ?? this.#activePath))
    if (at < 0) return false
    const [{ path, first, entries }] = this.list.splice(at, 1) as [Segment]
    if (path === this.#activePath) await this.closeActive()
    await this.#options.release(path)
    await this.#setAside(path, message, first, entries?.[1] ?? first)
    return true
  }

  /** Closes the segment that is written to. What fails here was written all the same. */
  async closeActive (): Promise<void> {
    const db = this.#active
    const path = this.#activePath
    if (db === null || path === null) return
    this.#active = null
    this.#activePath = null
    await this.#options.release(path)
    await seal(db).catch(() => {})
  }
}
