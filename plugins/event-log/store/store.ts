import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LogFiles } from './segments.js'
import { merged, PendingGaps, skipped, within, type Gap, type Range } from './gaps.js'
import {
  RESERVE, type IndexOrTime, type Snapshot, type StoreOptions, type StoreQuery, type StoreStatus
} from './types.js'
import { PositionFile } from './position.js'
import { rowOf, rowsOf, sizeOf, WriteQueue, type Op } from './queue.js'
import { withTimeout, Reads, SlowDiskError } from './reads.js'
import { DbError } from './sqlite-driver.js'
import type { Entry } from '../log/entries.js'

/** Opens the store, in counting-only mode on a full or failing disk. Rejects if the folder is unusable. */
export async function openStore (options: StoreOptions): Promise<EventStore> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 })
  const store = new Store(options)
  await store.open()
  return store
}

export type EventStore = Pick<Store, Exclude<keyof Store, 'open'>>

/** The log on disk. `append`, `cut` and `record` return immediately; a writer executes them in order. */
class Store {
  /** No index up to this one may be assigned again: it may have been assigned just before a crash. */
  reserved = 0
  readonly #options: StoreOptions
  readonly #position: PositionFile
  readonly #files: LogFiles
  readonly #reads: Reads
  readonly #queue = new WriteQueue()
  #mode: 'normal' | 'counting-only' = 'normal'
  /** Newest accepted index, on disk or not. */
  #tail = 0
  #counted = 0
  #dropped = 0
  /** Events that were counted or dropped; reported when a later event has been written. */
  readonly #missed = new PendingGaps()
  /** Events that were missing on disk at startup, until it is known whether other nodes send them again. */
  #lost: Gap | null = null
  /** Promise of the last queued operation on the files. */
  #turn: Promise<unknown> = Promise.resolve()
  #writing = false
  #cancelGroup: (() => void) | null = null
  #cancelCheck: (() => void) | null = null
  /** Monotonic time in ms since which free space has sufficed while writing is off. */
  #spaceSince: number | null = null
  #written = 0
  /** True if some files were unreadable at startup. */
  #unread = false
  /** Number of damaged files since the last successful write. */
  #damages = 0

  constructor (options: StoreOptions) {
    const { openDb, limits, clock } = options
    this.#options = options
    this.#position = new PositionFile(join(options.folder, 'position'), options.logger)
    this.#reads = new Reads({ openDb, clock, deadlineMs: limits.readMs, files: () => this.#files.list })
    this.#files = new LogFiles({ ...options, now: () => clock.now(), readsDone: () => this.#reads.done() })
  }

  async open (): Promise<void> {
    const files = this.#files
    const failure = await files.scan().then(() => null, (error: Error) => error.message)
    this.#unread = failure !== null
    this.#tail = files.tail
    const { reserved, missing } = await this.#position.read()
    this.reserved = Math.max(reserved, files.tail)
    const damage = files.damagedFrom === null ? null
      : { from: files.damagedFrom, to: this.reserved, count: 0 }
    this.#lost = [missing, damage].find((gap) => gap !== null && gap.to > files.tail) ?? null
    // Writes the position file early, which allocates it while there is disk space.
    await this.#savePosition(0)
    const free = await this.#options.freeBytes()
    if (failure !== null) this.#stop(failure)
    else this.#stopBelowFloor(free)
  }

  /** Queues entries with indices above all earlier ones; `texts` is their JSON, if available. */
  append (entries: readonly Entry[], texts?: readonly string[]): void {
    for (const [i, entry] of entries.entries()) this.#accept(entry, texts?.[i])
    this.#wake()
  }

  #accept (entry: Entry, text: string | undefined): void {
    const lost = this.#resolveLost(entry)
    this.#tail = Math.max(this.#tail, entry.idx)
    if (this.#mode === 'normal') {
      const row = rowOf(entry, text, lost)
      if (this.#fits(row.text.length)) {
        this.#queue.push({ type: 'append', row })
        return
      }
      if (this.#missed.gap === null) {
        this.#options.logger.warn({ queued: this.#queue.entries },
          'the disk of the event log is too slow: events are dropped, and counted, until it has caught up')
      }
      this.#dropped++
    } else this.#counted++
    this.#missed.add(entry.idx)
  }

  #fits (bytes: number): boolean {
    const { queueEntries, queueBytes } = this.#options.limits
    return this.#queue.entries < queueEntries && this.#queue.bytes + bytes <= queueBytes
  }

  /** If an entry shows that lost events will not come back, returns the last lost index, else 0. */
  #resolveLost ({ idx, prev }: Entry): number {
    const lost = this.#lost
    if (lost === null || idx < lost.from) return 0
    this.#lost = null
    if (idx <= lost.to || prev >= lost.from) return 0
    this.#missed.add(lost.from, lost.to, lost.count)
    return lost.to
  }

  /** Removes everything after index `after`, before any later append. */
  cut (after: number): void {
    if (after >= this.#tail) return
    this.#tail = after
    this.#missed.cut(after)
    if (this.#lost !== null && after < this.#lost.from) this.#lost = null
    // In counting-only mode the cut stays queued; reads hide the entries that it will remove.
    this.#queue.push({ type: 'cut', after })
    this.#wake()
  }

  record (snapshot: Snapshot): void {
    const op: Op = { type: 'snapshot', snapshot }
    if (this.#mode !== 'normal' || !this.#fits(sizeOf(op))) return
    this.#queue.push(op)
    this.#wake()
  }

  /** Resolves when all entries accepted so far are on disk, or counted. */
  async flushed (): Promise<void> {
    if (this.#mode !== 'normal' || this.#queue.ops.length === 0) return
    const done = new Promise<void>((resolve) => { this.#queue.push({ type: 'mark', resolve }) })
    this.#wake()
    await done
  }

  /** A page of entries. Rejects with DbError if the disk fails and with SlowDiskError if it is slow. */
  async read (query: StoreQuery): Promise<Entry[]> {
    const { until = Infinity } = query
    const waits = this.#queue.rows.some(({ idx }) => idx <= until)
    if (waits) {
      const { clock, limits: { readMs } } = this.#options
      await withTimeout(clock, readMs, this.flushed(), () =>
        new SlowDiskError(`the newest events were not written within ${readMs} ms`))
    }
    return await this.#withRepair(() => this.#reads.page(query, this.#queue.top))
  }

  /** The newest snapshot up to that index or time (ms), or null. Rejects as `read` does. */
  async snapshotBefore (at: IndexOrTime): Promise<Snapshot | null> {
    return await this.#withRepair(() => this.#reads.snapshot(at, this.#queue.top))
  }

  /** Retries a read if its file has been deleted, or was damaged and has been set aside. */
  async #withRepair<T> (read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof DbError) || !await this.#repair(error)) throw error
      return await this.#withRepair(read)
    }
  }

  /** Sets a damaged file aside. Returns whether a retry may succeed. */
  async #repair (error: DbError): Promise<boolean> {
    const isGone = (): boolean =>
      error.path !== null && !this.#files.list.some(({ path }) => path === error.path)
    if (isGone()) return true
    // Another read may already have set the damaged file aside.
    return error.corrupt && await this.#exclusive(async () =>
      isGone() || (this.#mode === 'normal' && await this.#files.setAside(error)))
  }

  status (): StoreStatus {
    const { head, tail, bytes, gaps } = this.#files
    const { top, rows } = this.#queue
    const lost: Range[] = this.#lost === null ? [] : [[this.#lost.from, this.#lost.to]]
    const waiting = skipped(rows, Math.min(tail, top))
    return {
      mode: this.#mode, counted: this.#counted, dropped: this.#dropped,
      gaps: merged([...within(gaps, 0, top), ...waiting, ...this.#missed.ranges, ...lost]),
      firstIdx: head, bytes, queued: this.#queue.entries
    }
  }

  async close (): Promise<void> {
    const { clock, limits, logger } = this.#options
    await withTimeout(clock, limits.patienceMs, this.#end(),
      () => new Error('the disk does not respond')).catch(
      ({ message }: Error) => { logger.warn({ error: message }, 'the event log was not closed cleanly') })
  }

  async #end (): Promise<void> {
    await this.flushed()
    this.#cancelGroup?.()
    this.#cancelCheck?.()
    await this.#exclusive(async () => {
      // A check that was still running may have scheduled another one.
      this.#cancelCheck?.()
      await this.#savePosition(0)
      await this.#files.close()
    })
  }

  /** Serialises work that changes the files. */
  #exclusive<T> (work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => {})
    return mine
  }

  /** Starts the writer now if there is enough for a group, else after `groupMs`. */
  #wake (): void {
    const { clock, limits } = this.#options
    if (this.#writing || this.#mode !== 'normal' || this.#queue.ops.length === 0) return
    if (this.#enough) this.#write()
    else this.#cancelGroup ??= clock.after(limits.groupMs, () => { this.#write() })
  }

  get #enough (): boolean {
    const { groupEntries, groupBytes } = this.#options.limits
    return this.#queue.awaited || this.#queue.entries >= groupEntries || this.#queue.bytes >= groupBytes
  }

  #write (): void {
    this.#cancelGroup?.()
    this.#cancelGroup = null
    this.#writing = true
    void this.#exclusive(async () => {
      while (this.#mode === 'normal' && this.#queue.ops.length > 0) {
        await this.#writeGroup()
        if (!this.#enough) break
      }
    }).finally(() => {
      this.#writing = false
      this.#wake()
    })
  }

  /** Writes until the next space check is due; one group per turn would lag on a busy event loop. */
  async #writeGroup (): Promise<void> {
    const { limits: { checkEntries, groupBytes }, freeBytes } = this.#options
    const ops = this.#queue.next(checkEntries - this.#written % checkEntries, groupBytes)
    try {
      if (this.#tail + RESERVE / 2 >= this.#position.reserved) await this.#savePosition(RESERVE)
      await this.#files.write(ops)
    } catch (error) {
      await this.#failed(error as Error)
      return
    }
    this.#damages = 0
    this.#queue.done(ops.length)
    const rows = rowsOf(ops)
    this.#reportGap(this.#queue.ops.length === 0 ? Infinity : rows.at(-1)?.idx ?? 0)
    await this.#rotate()
    this.#written += rows.length
    if (rows.length > 0 && this.#written % checkEntries === 0) this.#stopBelowFloor(await freeBytes())
  }

  #reportGap (upTo: number): void {
    const gap = this.#missed.take(upTo)
    if (gap !== null && gap.count > 0) this.#options.onGap(gap)
  }

  async #rotate (): Promise<void> {
    try {
      await this.#files.rotate()
    } catch (error) {
      this.#options.logger.warn({ error: (error as Error).message }, 'the oldest events could not be deleted')
    }
  }

  /** After damage, the group is written to another file; any other failure stops writing. */
  async #failed (error: Error): Promise<void> {
    const again = error instanceof DbError && error.corrupt && this.#damages++ === 0
    if (!again || !await this.#files.setAside(error)) this.#stop(error.message)
  }

  #stopBelowFloor (free: number | null): void {
    const { floorBytes } = this.#options.limits
    if (free !== null && free < floorBytes) {
      this.#stop(`${free} bytes are free on the volume, less than ${floorBytes}`)
    }
  }

  /** Stops writing, so events are only counted. Inference and cluster control continue. */
  #stop (why: string): void {
    const { logger, folder } = this.#options
    this.#mode = 'counting-only'
    this.#countQueued()
    this.#spaceSince = null
    logger.fatal({ why, folder },
      'CRITICAL: events are counted but not stored; free disk space, or check the disk')
    this.#scheduleCheck()
    this.#report()
  }

  /** Counts the queued events, except those that a later cut removes. The cuts stay queued. */
  #countQueued (): void {
    let waiting: number[] = []
    for (const op of this.#queue.done(this.#queue.ops.length)) {
      if (op.type === 'append') waiting.push(op.row.idx)
      if (op.type !== 'cut') continue
      waiting = waiting.filter((idx) => idx <= op.after)
      this.#queue.push(op)
    }
    this.#counted += waiting.length
    for (const idx of waiting) this.#missed.add(idx)
  }

  #scheduleCheck (): void {
    const { clock, limits } = this.#options
    this.#cancelCheck = clock.after(limits.checkMs, () => {
      void this.#exclusive(() => this.#checkDisk())
        .then(() => { if (this.#mode !== 'normal') this.#scheduleCheck() })
    })
  }

  /** In counting-only mode: resumes writing if there is enough disk space. */
  async #checkDisk (): Promise<void> {
    this.#report()
    try {
      await this.#savePosition(RESERVE)
      if (this.#hasSpace(await this.#options.freeBytes())) await this.#resume()
    } catch (error) {
      this.#spaceSince = null
      this.#options.logger.debug({ error: (error as Error).message }, 'the event log cannot be written yet')
    }
  }

  /** Whether free space has been high enough to resume writing for at least `holdMs`. */
  #hasSpace (free: number | null): boolean {
    const { limits: { floorBytes, headroomBytes, holdMs }, clock } = this.#options
    if (free !== null && free < floorBytes + headroomBytes) {
      this.#spaceSince = null
      return false
    }
    this.#spaceSince ??= clock.mono()
    return clock.mono() - this.#spaceSince >= holdMs
  }

  /** Resumes writing to a new file, whose creation tests the disk. Rejects with DbError. */
  async #resume (): Promise<void> {
    const files = this.#files
    if (this.#unread) {
      await files.scan()
      this.#tail = Math.max(this.#tail, files.tail)
      this.#missed.found(files.tail)
      this.#unread = false
    }
    await files.begin(this.#tail + 1)
    this.#mode = 'normal'
    this.#options.logger.info({ gap: this.#missed.gap }, 'events are written again')
    this.#report()
    this.#reportGap(Infinity)
    this.#wake()
  }

  /** Writes the position file, with `ahead` more indices reserved. */
  async #savePosition (ahead: number): Promise<void> {
    const reserved = Math.max(this.reserved, this.#tail + ahead)
    await this.#position.keep({ reserved, missing: this.#missed.gap ?? this.#lost })
  }

  #report (): void { this.#options.onMode(this.status()) }
}
