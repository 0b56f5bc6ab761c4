import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { LogFiles } from './segments.js'
import { merged, PendingGaps, skipped, within } from './gaps.js'
import { RESERVE } from './limits.js'
import { PositionFile } from './position.js'
import { rowOf, rowsOf, sizeOf, WriteQueue } from './queue.js'
import { withTimeout, Reads, SlowDiskError } from './reads.js'
import { DbError } from './sqlite-driver.js'
import type { Entry } from '../log/entries.js'
import type { Gap, Range } from './gaps.js'
import type { Op } from './queue.js'
import type { IndexOrTime, Snapshot, StoreOptions, StoreQuery, StoreStatus } from './types.js'

/** Opens the store, counting-only on a full or failing disk. Rejects when the folder is unusable. */
export async function openStore (options: StoreOptions): Promise<EventStore> {
  await mkdir(options.folder, { recursive: true, mode: 0o700 })
  const store = new Store(options)
  await store.open()
  return store
}

/** The store as the log uses it. */
export type EventStore = Pick<Store, Exclude<keyof Store, 'open'>>

/** The log on disk. `append`, `cut` and `record` return at once; a writer works in order. */
class Store {
  /** No index up to here may be given again: it may have been, just before a crash. */
  reserved = 0
  readonly #options: StoreOptions
  readonly #position: PositionFile
  readonly #files: LogFiles
  readonly #reads: Reads
  readonly #queue = new WriteQueue()
  #mode: 'normal' | 'counting-only' = 'normal'
  /** Newest index that was accepted, written or not. */
  #tail = 0
  #counted = 0
  #dropped = 0
  /** Counted or dropped events, reported with the next write behind them. */
  readonly #missed = new PendingGaps()
  /** Events that were not written before the start, until it is clear whether other nodes send them. */
  #lost: Gap | null = null
  /** End of the queue of changes to the files. */
  #turn: Promise<unknown> = Promise.resolve()
  #writing = false
  #cancelGroup: (() => void) | null = null
  #cancelLook: (() => void) | null = null
  /** Start of sufficient free space while writing is off, monotonic ms. */
  #roomSince: number | null = null
  #written = 0
  /** The files could not all be read at the start. */
  #unread = false
  /** Files that proved damaged since a group was last written. */
  #damages = 0

  constructor (options: StoreOptions) {
    const { openDb, limits, clock } = options
    this.#options = options
    this.#position = new PositionFile(join(options.folder, 'position'), options.logger)
    this.#reads = new Reads({ openDb, clock, deadlineMs: limits.readMs, files: () => this.#files.list })
    this.#files = new LogFiles({
      ...options, now: () => clock.now(), readsDone: () => this.#reads.done()
    })
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
    // Takes its room on the disk while there is some.
    await this.#remember(0)
    const free = await this.#options.freeBytes()
    if (failure !== null) this.#stop(failure)
    else this.#stopBelowFloor(free)
  }

  /** Takes entries behind all that were appended before; `texts`: their JSON, if it is at hand. */
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

  /** True when something of so many bytes may wait too. */
  #fits (bytes: number): boolean {
    const { queueEntries, queueBytes } = this.#options.limits
    return this.#queue.entries < queueEntries && this.#queue.bytes + bytes <= queueBytes
  }

  /**
   * The first entry at or after the lost ones shows whether they return. Returns the newest index that is
   * lost permanently; 0 without one.
   */
  #resolveLost ({ idx, prev }: Entry): number {
    const lost = this.#lost
    if (lost === null || idx < lost.from) return 0
    this.#lost = null
    if (idx <= lost.to || prev >= lost.from) return 0
    this.#missed.add(lost.from, lost.to, lost.count)
    return lost.to
  }

  /** Takes away what lies behind index `after`, before anything appended later. */
  cut (after: number): void {
    if (after >= this.#tail) return
    this.#tail = after
    this.#missed.cut(after)
    if (this.#lost !== null && after < this.#lost.from) this.#lost = null
    // In counting-only mode the cut waits in the queue; reads leave out what it will remove.
    this.#queue.push({ type: 'cut', after })
    this.#wake()
  }

  /** Takes a snapshot. */
  record (snapshot: Snapshot): void {
    const op: Op = { type: 'snapshot', snapshot }
    if (this.#mode !== 'normal' || !this.#fits(sizeOf(op))) return
    this.#queue.push(op)
    this.#wake()
  }

  /** Resolves when all that was accepted before is on the disk, or counted. */
  async flushed (): Promise<void> {
    if (this.#mode !== 'normal' || this.#queue.ops.length === 0) return
    const done = new Promise<void>((resolve) => { this.#queue.push({ type: 'mark', resolve }) })
    this.#wake()
    await done
  }

  /** A page of entries. Rejects with DbError and SlowDiskError: when the disk fails, and when it is slow. */
  async read (query: StoreQuery): Promise<Entry[]> {
    const { until = Infinity } = query
    const waits = this.#queue.rows.some(({ idx }) => idx <= until)
    if (waits) {
      const { clock, limits: { readMs } } = this.#options
      await withTimeout(clock, readMs, this.flushed(), () =>
        new SlowDiskError(`the newest events were not written within ${readMs} ms`))
    }
    return await this.#mended(() => this.#reads.page(query, this.#queue.top))
  }

  /** The newest snapshot up to that index or time (ms), or null. Rejects as `read` does. */
  async snapshotBefore (at: IndexOrTime): Promise<Snapshot | null> {
    return await this.#mended(() => this.#reads.snapshot(at, this.#queue.top))
  }

  /** Reads, and retries after a file was deleted or proved damaged. */
  async #mended<T> (read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof DbError) || !await this.#mend(error)) throw error
      return await this.#mended(read)
    }
  }

  /** Sets a damaged file aside. False when that does not help. */
  async #mend (error: DbError): Promise<boolean> {
    const isGone = (): boolean =>
      error.path !== null && !this.#files.list.some(({ path }) => path === error.path)
    if (isGone()) return true
    // Another read may have found it first.
    return error.corrupt && await this.#alone(async () =>
      isGone() || (this.#mode === 'normal' && await this.#files.setAside(error)))
  }

  status (): StoreStatus {
    const { head, tail, bytes, gaps } = this.#files
    const { top, rows } = this.#queue
    const lost: Range[] = this.#lost === null ? [] : [[this.#lost.from, this.#lost.to]]
    const waiting = skipped(rows, Math.min(tail, top))
    return {
      mode: this.#mode,
      counted: this.#counted,
      dropped: this.#dropped,
      gaps: merged([...within(gaps, 0, top), ...waiting, ...this.#missed.ranges, ...lost]),
      firstIdx: head,
      bytes,
      queued: this.#queue.entries
    }
  }

  async close (): Promise<void> {
    const { clock, limits, logger } = this.#options
    await withTimeout(clock, limits.patienceMs, this.#end(),
      () => new Error('the disk does not answer')).catch(
      ({ message }: Error) => { logger.warn({ error: message }, 'the event log was not closed in order') })
  }

  async #end (): Promise<void> {
    await this.flushed()
    this.#cancelGroup?.()
    this.#cancelLook?.()
    await this.#alone(async () => {
      // A running check has scheduled the next one.
      this.#cancelLook?.()
      await this.#remember(0)
      await this.#files.close()
    })
  }

  /** Work that changes the files waits for its turn. */
  #alone<T> (work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => {})
    return mine
  }

  /** Starts the writer now if there is enough for a group, else in `groupMs`. */
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
    void this.#alone(async () => {
      while (this.#mode === 'normal' && this.#queue.ops.length > 0) {
        await this.#writeGroup()
        if (!this.#enough) break
      }
    }).finally(() => {
      this.#writing = false
      this.#wake()
    })
  }

  /** Writes all groups up to the next space check: single ones would lag on a busy event loop. */
  async #writeGroup (): Promise<void> {
    const { limits: { checkEntries, groupBytes }, freeBytes } = this.#options
    const ops = this.#queue.next(checkEntries - this.#written % checkEntries, groupBytes)
    try {
      if (this.#tail + RESERVE / 2 >= this.#position.reserved) await this.#remember(RESERVE)
      await this.#files.write(ops)
    } catch (error) {
      await this.#failed(error as Error)
      return
    }
    this.#damages = 0
    this.#queue.done(ops.length)
    const rows = rowsOf(ops)
    this.#tell(this.#queue.ops.length === 0 ? Infinity : rows.at(-1)?.idx ?? 0)
    await this.#rotate()
    this.#written += rows.length
    if (rows.length > 0 && this.#written % checkEntries === 0) this.#stopBelowFloor(await freeBytes())
  }

  /** Tells of the events that were missed up to this index. */
  #tell (upTo: number): void {
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

  /** After damage the group is written to another file; any other failure stops the writing. */
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

  /** Stops writing: from here on events are counted. Inference and the control of the cluster go on. */
  #stop (why: string): void {
    const { logger, folder } = this.#options
    this.#mode = 'counting-only'
    this.#refuse()
    this.#roomSince = null
    logger.fatal({ why, folder },
      'CRITICAL: events are only counted, not written; free some space, or see what is wrong with the disk')
    this.#lookLater()
    this.#report()
  }

  /** Counts what waited, but for what a cut behind it takes away. The cuts go on waiting. */
  #refuse (): void {
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

  #lookLater (): void {
    const { clock, limits } = this.#options
    this.#cancelLook = clock.after(limits.checkMs, () => {
      void this.#alone(() => this.#look()).then(() => { if (this.#mode !== 'normal') this.#lookLater() })
    })
  }

  /** In counting-only mode: begins to write again if there is room. */
  async #look (): Promise<void> {
    this.#report()
    try {
      await this.#remember(RESERVE)
      if (this.#hasRoom(await this.#options.freeBytes())) await this.#resume()
    } catch (error) {
      this.#roomSince = null
      this.#options.logger.debug({ error: (error as Error).message }, 'the event log cannot be written yet')
    }
  }

  /** True when there has been enough room for long enough. */
  #hasRoom (free: number | null): boolean {
    const { limits: { floorBytes, headroomBytes, holdMs }, clock } = this.#options
    if (free !== null && free < floorBytes + headroomBytes) {
      this.#roomSince = null
      return false
    }
    this.#roomSince ??= clock.mono()
    return clock.mono() - this.#roomSince >= holdMs
  }

  /** Writes again, to a new file: making it shows that the disk takes it. Rejects with DbError. */
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
    this.#tell(Infinity)
    this.#wake()
  }

  /** Writes the position file, with `ahead` more indices reserved. */
  async #remember (ahead: number): Promise<void> {
    const reserved = Math.max(this.reserved, this.#tail + ahead)
    await this.#position.keep({ reserved, missing: this.#missed.gap ?? this.#lost })
  }

  #report (): void { this.#options.onMode(this.status()) }
}
