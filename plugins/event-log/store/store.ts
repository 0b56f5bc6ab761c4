import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { inTime } from './reads.js'
import { LogFiles } from './files.js'
import { merged, Missed, rangeOf, skipped, within } from './gaps.js'
import { RESERVE } from './limits.js'
import { openPosition } from './position.js'
import { gapsOf, rowOf, sizeOf, WriteQueue } from './queue.js'
import { Reads } from './reads.js'
import { DbError } from './sqlite.js'
import type { Entry } from '../log/entries.js'
import type { Gap } from './gaps.js'
import type { Position } from './position.js'
import type { Op } from './queue.js'
import type { EventStore, Moment, Snapshot, StoreOptions, StoreQuery, StoreStatus } from './types.js'

/**
 * Opens the store. With a disk that is full or fails it opens in the mode counting-only. Rejects when the
 * folder cannot be made or listed.
 */
export async function openStore (options: StoreOptions): Promise<EventStore> {
  const { folder, logger } = options
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const store = new Store(options, await openPosition(join(folder, 'position'), logger))
  await store.open()
  return store
}

class Store implements EventStore {
  reserved = 0
  readonly #options: StoreOptions
  readonly #position: Position
  readonly #files: LogFiles
  readonly #reads: Reads
  readonly #queue: WriteQueue
  readonly #modeListeners = new Set<(status: StoreStatus) => void>()
  #mode: 'normal' | 'counting-only' = 'normal'
  /** Newest index that was accepted, written or not. */
  #tail = 0
  #counted = 0
  #dropped = 0
  /** Events that were counted or dropped since something was last written; reported when writing goes on. */
  readonly #missed = new Missed()
  /** Events that were not written before the start, until it is clear whether other nodes send them. */
  #lost: Gap | null = null
  /** The work that changes the files now; there is never a second one. */
  #working: Promise<void> | null = null
  #cancelGroup: (() => void) | null = null
  #stopLooking: (() => void) | null = null
  /** While nothing is written: since when there has been enough room, monotonic ms. */
  #roomSince: number | null = null
  /** Entries written since the start. */
  #written = 0
  /** The files could not all be read at the start. */
  #unread = false
  /** Files that proved damaged since a group was last written. */
  #damages = 0

  constructor (options: StoreOptions, position: Position) {
    const { openDb, limits, clock } = options
    this.#options = options
    this.#position = position
    this.#queue = new WriteQueue({ entries: limits.queueEntries, bytes: limits.queueBytes })
    this.#reads = new Reads({ openDb, clock, deadlineMs: limits.readMs, files: () => this.#files.list })
    this.#files = new LogFiles({
      ...options, now: () => clock.now(), release: (path) => this.#reads.release(path)
    })
  }

  async open (): Promise<void> {
    const { logger, freeBytes, folder } = this.#options
    const files = this.#files
    const failure = await files.scan().then(() => null, (error: Error) => error.message)
    this.#unread = failure !== null
    if (files.unused.length > 0) {
      logger.warn({ folder, files: files.unused },
        'these files of an earlier version are not read any more; delete them if nobody needs them')
    }
    this.#tail = files.tail
    const { reserved, missing } = this.#position.found
    this.reserved = Math.max(reserved, files.tail)
    const damage = files.damagedFrom === null ? null
      : { from: files.damagedFrom, to: this.reserved, count: 0 }
    this.#lost = [missing, damage].find((gap) => gap !== null && gap.to > files.tail) ?? null
    const free = await freeBytes()
    if (failure !== null) this.#stop(failure)
    else this.#stopBelowFloor(free)
  }

  append (entries: readonly Entry[], texts?: readonly string[]): void {
    for (const [i, entry] of entries.entries()) this.#accept(entry, texts?.[i])
    this.#wake()
  }

  #accept (entry: Entry, text: string | undefined): void {
    this.#resolveLost(entry)
    this.#tail = Math.max(this.#tail, entry.idx)
    if (this.#mode !== 'normal') {
      this.#counted++
      this.#missed.add(entry.idx)
      return
    }
    const row = rowOf(entry, text)
    if (this.#queue.fits(row.text.length)) {
      this.#pushMissed()
      this.#queue.push({ type: 'append', row })
      return
    }
    if (this.#missed.gap === null) {
      this.#options.logger.warn({ queued: this.#queue.entries },
        'the disk of the event log is too slow: events are dropped, and counted, until it has caught up')
    }
    this.#dropped++
    this.#missed.add(entry.idx)
  }

  /** The first entry at or after what was lost shows whether that comes back or is missing for good. */
  #resolveLost ({ idx, prev }: Entry): void {
    const lost = this.#lost
    if (lost === null || idx < lost.from) return
    this.#lost = null
    if (idx > lost.to && prev < lost.from) this.#missed.join([lost])
  }

  /** There is room in the queue again: the gap is written before what follows. */
  #pushMissed (): void {
    const runs = this.#missed.take()
    if (runs.length > 0) this.#queue.push({ type: 'gap', runs })
  }

  cut (after: number): void {
    if (after >= this.#tail) return
    this.#tail = after
    this.#missed.cut(after)
    if (this.#lost !== null && after < this.#lost.from) this.#lost = null
    // In counting-only mode the cut waits in the queue; reads leave out what it will remove.
    this.#queue.push({ type: 'cut', after })
    this.#wake()
  }

  record (snapshot: Snapshot): void {
    const op: Op = { type: 'snapshot', snapshot }
    if (this.#mode !== 'normal' || !this.#queue.fits(sizeOf(op))) return
    this.#queue.push(op)
    this.#wake()
  }

  async flushed (): Promise<void> {
    if (this.#mode !== 'normal' || this.#queue.empty) return
    const done = new Promise<void>((resolve) => { this.#queue.push({ type: 'mark', resolve }) })
    this.#wake()
    await done
  }

  async read (query: StoreQuery): Promise<Entry[]> {
    return await this.#mended(async () => await this.#queue.page(query, (rest, top) =>
      this.#reads.page(rest, top)))
  }

  async snapshotBefore (at: Moment): Promise<Snapshot | null> {
    return await this.#mended(async () => await this.#reads.snapshot(at, this.#queue.pending().top))
  }

  /** Reads, and reads again without a file that was deleted meanwhile or proves damaged. */
  async #mended<T> (read: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await read()
      } catch (error) {
        if (!(error instanceof DbError) || !await this.#mend(error)) throw error
      }
    }
  }

  /** Sets a damaged file aside, between two groups of the writer. False when that does not help. */
  async #mend (error: DbError): Promise<boolean> {
    const isGone = (): boolean =>
      error.path !== null && !this.#files.list.some(({ path }) => path === error.path)
    if (isGone()) return true
    if (!error.corrupt) return false
    while (this.#working !== null) await this.#working
    // Another read may have found it first.
    return isGone() || (this.#mode === 'normal' && await this.#alone(this.#files.setAside(error)))
  }

  status (): StoreStatus {
    const { top, entries } = this.#queue.pending()
    const { head, tail, bytes, gaps } = this.#files
    const missed = [...skipped(entries, Math.min(tail, top)), this.#missed.gap, this.#lost]
      .filter((gap) => gap !== null)
    return {
      mode: this.#mode,
      counted: this.#counted,
      dropped: this.#dropped,
      gaps: merged([...within(gaps, 0, top), ...missed.map(rangeOf)]),
      firstIdx: head ?? entries[0]?.idx ?? null,
      bytes,
      queued: this.#queue.entries
    }
  }

  onMode (fn: (status: StoreStatus) => void): () => void {
    this.#modeListeners.add(fn)
    return () => { this.#modeListeners.delete(fn) }
  }

  async close (): Promise<void> {
    const { clock, limits, logger } = this.#options
    await inTime(clock, limits.patienceMs, this.#end(), () => new Error('the disk does not answer')).catch(
      ({ message }: Error) => { logger.warn({ error: message }, 'the event log was not closed in order') })
  }

  async #end (): Promise<void> {
    await this.flushed()
    this.#cancelGroup?.()
    this.#stopLooking?.()
    while (this.#working !== null) await this.#working
    await this.#remember(0)
    await this.#files.close()
    await this.#reads.close()
    await this.#position.close()
  }

  /** Starts the writer now if there is enough for a group, else in `groupMs`. */
  #wake (): void {
    const { clock, limits } = this.#options
    if (this.#working !== null || this.#mode !== 'normal' || this.#queue.empty) return
    if (this.#enough) this.#start()
    else this.#cancelGroup ??= clock.after(limits.groupMs, () => { this.#start() })
  }

  get #enough (): boolean {
    const { groupEntries, groupBytes } = this.#options.limits
    return this.#queue.awaited || this.#queue.entries >= groupEntries || this.#queue.bytes >= groupBytes
  }

  #start (): void {
    this.#cancelGroup?.()
    this.#cancelGroup = null
    if (this.#working === null) void this.#alone(this.#write())
  }

  /** Runs work that changes the files; the writer waits until it is done. */
  async #alone<T> (work: Promise<T>): Promise<T> {
    const done = (): void => {
      this.#working = null
      this.#wake()
    }
    this.#working = work.then(done, done)
    return await work
  }

  async #write (): Promise<void> {
    do {
      await this.#writeGroup()
      if (this.#mode === 'normal' && this.#queue.empty) this.#pushMissed()
    } while (this.#mode === 'normal' && !this.#queue.empty && this.#enough)
  }

  /**
   * Writes all that waits, up to the next check of free space. Each group costs turns of the event loop, so
   * small groups would fall behind when that is busy.
   */
  async #writeGroup (): Promise<void> {
    const { limits: { checkEntries, groupBytes }, onGap, freeBytes } = this.#options
    const ops = this.#queue.next({ entries: checkEntries - this.#written % checkEntries, bytes: groupBytes })
    try {
      if (this.#tail + RESERVE / 2 >= this.#position.reserved) await this.#remember(RESERVE)
      await this.#files.write(ops)
    } catch (error) {
      await this.#failed(error as Error)
      return
    }
    this.#damages = 0
    this.#queue.done(ops.length)
    for (const gap of gapsOf(ops)) if (gap.count > 0) onGap(gap)
    await this.#rotate()
    const entries = ops.filter(({ type }) => type === 'append').length
    this.#written += entries
    if (entries > 0 && this.#written % checkEntries === 0) this.#stopBelowFloor(await freeBytes())
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
    const { logger, folder, clock, limits } = this.#options
    this.#mode = 'counting-only'
    this.#refuse(this.#queue.drain())
    this.#roomSince = null
    logger.fatal({ why, folder },
      'CRITICAL: events are only counted, not written; free some space, or see what is wrong with the disk')
    this.#stopLooking = clock.every(limits.checkMs, () => {
      if (this.#working === null) void this.#alone(this.#look())
    })
    this.#notifyMode()
  }

  /** Counts what waited. All of it is older than what was missed before. */
  #refuse (ops: readonly Op[]): void {
    const later = this.#missed.take()
    for (const op of ops) {
      if (op.type === 'gap') this.#missed.join(op.runs)
      if (op.type === 'append') {
        this.#counted++
        this.#missed.add(op.row.entry.idx)
      }
      if (op.type !== 'cut') continue
      this.#missed.cut(op.after)
      this.#queue.push(op)
    }
    this.#missed.join(later)
  }

  /** In counting-only mode: begins to write again if there is room. */
  async #look (): Promise<void> {
    this.#notifyMode()
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

  /** Writes again, to a new file that begins with the gap. Rejects with DbError. */
  async #resume (): Promise<void> {
    const { logger, onGap } = this.#options
    const files = this.#files
    if (this.#unread) {
      await files.scan()
      this.#tail = Math.max(this.#tail, files.tail)
      this.#missed.found(files.tail)
      this.#unread = false
    }
    await files.startAnew()
    let written: Gap | null = null
    // Events may be counted, and cut, while this is being written.
    while (!this.#queue.empty || !isDeepStrictEqual(written, this.#missed.gap)) {
      const cuts = this.#queue.next({ entries: 1, bytes: 1 })
      await files.write(cuts)
      this.#queue.done(cuts.length)
      if (cuts.length > 0) await files.startAnew()
      const gap = this.#missed.gap
      if (gap !== null) await files.write([{ type: 'gap', runs: [gap] }])
      written = gap
    }
    this.#missed.take()
    this.#mode = 'normal'
    this.#stopLooking?.()
    this.#stopLooking = null
    logger.info({ gap: written }, 'events are written again')
    this.#notifyMode()
    if (written !== null && written.count > 0) onGap(written)
  }

  /** Writes the position file, with `ahead` more indices reserved. */
  async #remember (ahead: number): Promise<void> {
    await this.#position.keep({
      reserved: Math.max(this.reserved, this.#tail + ahead), missing: this.#missed.gap ?? this.#lost
    })
  }

  #notifyMode (): void {
    const status = this.status()
    for (const fn of [...this.#modeListeners]) fn(status)
  }
}
