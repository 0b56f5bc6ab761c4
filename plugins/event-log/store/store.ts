import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Archiver } from './archive.js'
import { RESERVE } from './limits.js'
import { Ledger } from './ledger.js'
import { pendingOf, readBoth } from './pending.js'
import { openPosition } from './position.js'
import { Progress } from './progress.js'
import { sizeOf, WriteQueue } from './queue.js'
import { mending, Reads } from './reads.js'
import { rowOf } from './row.js'
import { SegmentSet } from './segments.js'
import { writeGroup } from './segment.js'
import { DbError } from './sqlite.js'
import { SpaceGuard } from './space.js'
import { delay } from '../../../kernel/index.js'
import type { Entry } from '../entries.js'
import type { StoreLimits } from './limits.js'
import type { DiskStore, StoreOptions } from './options.js'
import type { Position } from './position.js'
import type { GapOp, Op } from './queue.js'
import type { Moment, Snapshot, StoreQuery, StoreStatus } from './types.js'

/**
 * Opens the store. A disk without room, or one that fails, does not keep it from opening: it counts then, and
 * looks again. Rejects when the folder cannot be made or listed.
 */
export async function openStore (options: StoreOptions): Promise<DiskStore> {
  const { folder, logger } = options
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const store = new Store(options, await openPosition(join(folder, 'position'), logger))
  await store.open()
  return store
}

class Store implements DiskStore {
  reserved = 0
  readonly #options: StoreOptions
  readonly #limits: StoreLimits
  readonly #position: Position
  readonly #set: SegmentSet
  readonly #reads: Reads
  readonly #queue: WriteQueue
  readonly #guard: SpaceGuard
  readonly #ending = new AbortController()
  readonly #archiver: Archiver
  readonly #modeListeners = new Set<(status: StoreStatus) => void>()
  #ledger = new Ledger({ tail: 0, gaps: [], lost: null })
  #mode: 'normal' | 'counting-only' = 'normal'
  #writing: Promise<void> | null = null
  #cancelGroup: (() => void) | null = null
  #stopLooking: (() => void) | null = null
  #looking: Promise<void> | null = null
  readonly #progress = new Progress()
  /** Entries written since the start. */
  #written = 0
  #unread = false
  #damages = 0

  constructor (options: StoreOptions, position: Position) {
    const { folder, openDb, limits, clock } = options
    this.#options = options
    this.#limits = limits
    this.#position = position
    this.#queue = new WriteQueue({ entries: limits.queueEntries, bytes: limits.queueBytes })
    this.#guard = new SpaceGuard(limits)
    this.#archiver = new Archiver({
      folder, clock, limits, signal: this.#ending.signal,
      lost: (name, error) => {
        options.logger.warn({ name, error }, 'old events could not be packed into an archive')
      }
    })
    this.#reads = new Reads({ openDb, clock, deadlineMs: limits.readMs, segments: () => this.#set.list })
    this.#set = new SegmentSet({
      folder, openDb, limits, now: () => clock.now(), release: (path) => this.#reads.release(path)
    })
  }

  async open (): Promise<void> {
    const failure = await this.#scan()
    const set = this.#set
    const { found } = this.#position
    this.reserved = Math.max(found.reserved, set.tail)
    const newest = set.damaged.find(({ to }) => to === null)
    const damage = newest === undefined ? null : { from: newest.from, to: this.reserved, count: 0 }
    const lost = [found.missing, damage].find((gap) => gap !== null && gap.to > set.tail) ?? null
    this.#ledger = new Ledger({ tail: set.tail, gaps: set.gaps, lost })
    this.#tellDamages()
    const free = await this.#options.freeBytes()
    if (failure !== null) this.#stop(failure)
    else if (this.#guard.tooLittle(free)) this.#stop(this.#littleSpace(free))
    else this.#archiver.start()
  }

  append (entries: readonly Entry[], texts?: readonly string[]): void {
    for (const [i, entry] of entries.entries()) {
      if (this.#mode !== 'normal') {
        this.#ledger.miss(entry, 'counted')
        continue
      }
      const row = rowOf(entry, texts?.[i])
      if (this.#queue.fits(row.text.length)) {
        for (const op of this.#ledger.accept(entry)) this.#push(op)
        this.#push({ type: 'append', row })
      } else {
        if (this.#ledger.missing === null) {
          this.#options.logger.warn({ queued: this.#queue.entries },
            'the disk of the event log is too slow: events are dropped, and counted, until it has caught up')
        }
        this.#ledger.miss(entry, 'dropped')
      }
    }
    this.#wake()
  }

  cut (after: number): void {
    if (after >= this.#ledger.tail) return
    this.#ledger.cut(after)
    if (this.#mode === 'normal') this.#push({ type: 'cut', after })
    else this.#set.cutLater(after)
    this.#wake()
  }

  record (snapshot: Snapshot): void {
    const op: Op = { type: 'snapshot', snapshot }
    if (this.#mode !== 'normal' || !this.#queue.fits(sizeOf(op))) return
    this.#push(op)
    this.#wake()
  }

  async flushed (): Promise<void> {
    const settled = this.#progress.settled()
    if (settled === null) return
    this.#wake()
    await settled
  }

  async read (query: StoreQuery): Promise<Entry[]> {
    return await this.#read(() => readBoth(query, pendingOf(this.#queue.all), async (rest, top) =>
      await this.#reads.page(rest, Math.min(top, this.#set.stale ?? top))))
  }

  async snapshotBefore (at: Moment): Promise<Snapshot | null> {
    return await this.#read(() => this.#reads.snapshot(at, this.#set.stale ?? Number.MAX_SAFE_INTEGER))
  }

  /** A segment that proves damaged is set aside, between two groups of the writer; all is read but that. */
  async #read<T> (read: () => Promise<T>): Promise<T> {
    return await mending(read, async (error) => {
      while (this.#writing !== null) await this.#writing
      // Another reader may have found it first.
      if (error.path !== null && !this.#set.list.some(({ path }) => path === error.path)) return true
      return this.#mode === 'normal' && await this.#inTurn(this.#setAside(error))
    })
  }

  status (): StoreStatus {
    const { counted, dropped, gaps } = this.#ledger
    return {
      mode: this.#mode,
      counted,
      dropped,
      gaps,
      firstIdx: this.#set.head ?? pendingOf(this.#queue.all).entries[0]?.idx ?? null,
      bytes: this.#set.bytes + this.#archiver.bytes,
      queued: this.#queue.entries
    }
  }

  onMode (fn: (status: StoreStatus) => void): () => void {
    this.#modeListeners.add(fn)
    return () => { this.#modeListeners.delete(fn) }
  }

  async close (): Promise<void> {
    const { clock } = this.#options
    const over = new AbortController()
    const patience = delay(clock, this.#limits.patienceMs, over.signal).catch(() => {})
    await Promise.race([this.#end(), patience]).finally(() => { over.abort() })
  }

  async #end (): Promise<void> {
    await this.flushed()
    this.#ending.abort()
    this.#cancelGroup?.()
    this.#stopLooking?.()
    await this.#looking
    await this.#writing
    await this.#archiver.settled()
    await this.#remember(0)
    await this.#set.closeActive()
    await this.#reads.close()
    await this.#position.close()
  }

  #push (op: Op): void {
    this.#queue.push(op)
    this.#progress.accept()
  }

  /** Starts the writer when there is enough to do, or in a moment. */
  #wake (): void {
    if (this.#writing !== null || this.#mode !== 'normal' || this.#queue.waiting === 0) return
    if (this.#enough) this.#start()
    else this.#cancelGroup ??= this.#options.clock.after(this.#limits.groupMs, () => { this.#start() })
  }

  get #enough (): boolean {
    const { groupEntries, groupBytes } = this.#limits
    return this.#progress.awaited || this.#queue.entries >= groupEntries || this.#queue.bytes >= groupBytes
  }

  #start (): void {
    this.#cancelGroup?.()
    this.#cancelGroup = null
    if (this.#writing !== null) return
    void this.#inTurn(this.#write())
  }

  /** Only one changes the files at a time. */
  async #inTurn<T> (work: Promise<T>): Promise<T> {
    const done = (): void => {
      this.#writing = null
      this.#wake()
    }
    this.#writing = work.then(done, done)
    return await work
  }

  async #write (): Promise<void> {
    do {
      await this.#step()
      // There is room again: what was dropped meanwhile is said.
      if (this.#mode === 'normal' && this.#queue.waiting === 0) {
        for (const op of this.#ledger.release()) this.#push(op)
      }
    } while (this.#mode === 'normal' && this.#queue.waiting > 0 && this.#enough)
  }

  /** Writes all that waits, up to the next look at free space: small groups fall behind on a busy loop. */
  async #step (): Promise<void> {
    const { checkEntries, groupBytes } = this.#limits
    const untilCheck = checkEntries - this.#written % checkEntries
    const ops = this.#queue.take({ entries: untilCheck, bytes: groupBytes })
    try {
      if (this.#ledger.tail + RESERVE / 2 >= this.#position.reserved) await this.#remember(RESERVE)
      await this.#carryOut(ops)
    } catch (error) {
      await this.#failed(error as Error)
      return
    }
    this.#damages = 0
    this.#queue.done()
    this.#progress.advance(ops.length)
    this.#tellGaps(ops)
    const entries = ops.filter(({ type }) => type === 'append').length
    this.#written += entries
    await this.#grown(ops)
    if (entries > 0 && this.#written % checkEntries === 0) {
      const free = await this.#options.freeBytes()
      if (this.#guard.tooLittle(free)) this.#stop(this.#littleSpace(free))
    }
  }

  async #carryOut (ops: readonly Op[]): Promise<void> {
    const [first] = ops
    if (first?.type === 'cut') {
      await this.#set.cut(first.after)
      return
    }
    const rows = ops.filter((op) => op.type === 'append').map(({ row }) => row)
    const { db, segment } = await this.#set.active(rows[0]?.idx ?? this.#set.tail + 1)
    await writeGroup(db, ops)
    if (rows.length === 0) return
    segment.entries = [segment.entries?.[0] ?? rows[0]!.idx, rows.at(-1)!.idx]
    segment.newestMs = Math.max(segment.newestMs, ...rows.map(({ ms }) => ms))
  }

  async #grown (ops: readonly Op[]): Promise<void> {
    try {
      if (await this.#set.grown(ops.reduce((sum, op) => sum + sizeOf(op), 0))) this.#archiver.start()
    } catch (error) {
      const { message } = error as Error
      this.#options.logger.warn({ error: message }, 'the event log could not be made smaller')
      if (error instanceof DbError && error.corrupt) await this.#setAside(error)
    }
  }

  async #failed (error: Error): Promise<void> {
    const again = error instanceof DbError && error.corrupt && this.#damages++ === 0
    if (!again || !await this.#setAside(error)) this.#stop(error.message)
  }

  /** Sets a damaged segment aside. False when the damage is in none, or the file cannot be moved. */
  async #setAside (error: DbError): Promise<boolean> {
    if (!await this.#set.abandon(error).catch(() => false)) return false
    const { from, to } = this.#set.damaged.at(-1)!
    this.#tellDamages()
    // What lies behind that is written anew by what waits.
    const end = Math.min(to ?? from, pendingOf(this.#queue.all).top)
    this.#queue.putBack(end < from ? [] : [this.#ledger.damaged(from, end)])
    if (end >= from) this.#progress.accept()
    return true
  }

  #tellDamages (): void {
    for (const damaged of this.#set.damaged) this.#options.onDamaged(damaged)
    this.#set.damaged.length = 0
  }

  #tellGaps (ops: readonly Op[]): void {
    for (const op of ops) if (op.type === 'gap' && op.told) this.#options.onGap(op.gap)
  }

  async #scan (): Promise<string | null> {
    try {
      await this.#set.scan()
      this.#unread = false
      return null
    } catch (error) {
      this.#unread = true
      return (error as Error).message
    }
  }

  #littleSpace (free: number | null): string {
    return `${free ?? 0} bytes are free on the volume, less than ${this.#limits.floorBytes}`
  }

  /** Stops writing: from here on events are counted. Inference and the control of the cluster go on. */
  #stop (why: string): void {
    this.#mode = 'counting-only'
    const ops = this.#queue.drain()
    this.#ledger.refuse(ops)
    for (const op of ops) if (op.type === 'cut') this.#set.cutLater(op.after)
    this.#progress.finish()
    this.#guard.stopped()
    this.#options.logger.fatal({ why, folder: this.#options.folder },
      'CRITICAL: events are only counted, not written; free some space, or see what is wrong with the disk')
    this.#stopLooking = this.#options.clock.every(this.#limits.checkMs, () => {
      this.#looking ??= this.#look().finally(() => { this.#looking = null })
    })
    this.#tellMode()
  }

  /** While nothing is written: is there room again? */
  async #look (): Promise<void> {
    this.#tellMode()
    try {
      await this.#remember(RESERVE)
      const free = await this.#options.freeBytes()
      if (this.#guard.mayBegin(free, this.#options.clock.mono())) await this.#resume()
    } catch (error) {
      this.#guard.stopped()
      this.#options.logger.debug({ error: (error as Error).message }, 'the event log cannot be written yet')
    }
  }

  /**
   * Begins to write again, in a new segment, with the record of what was not written. Rejects with DbError.
   */
  async #resume (): Promise<void> {
    const set = this.#set
    await set.closeActive()
    if (this.#unread) {
      await set.scan()
      this.#ledger.found(set.tail)
    }
    this.#unread = false
    this.#tellDamages()
    let written: readonly GapOp[] = []
    // Events may be counted, and cut, while this is being written.
    while (set.stale !== null || JSON.stringify(written) !== JSON.stringify(this.#ledger.due())) {
      await set.cutStale()
      written = this.#ledger.due()
      if (written.length === 0) continue
      const { db } = await set.active(this.#ledger.tail + 1, true)
      await writeGroup(db, written)
    }
    this.#ledger.release()
    this.#mode = 'normal'
    this.#stopLooking?.()
    this.#stopLooking = null
    this.#archiver.start()
    this.#options.logger.info({ gaps: written.map(({ gap }) => gap) }, 'events are written again')
    this.#tellMode()
    this.#tellGaps(written)
  }

  /** What the next start has to know; so many more indices are set aside. */
  async #remember (ahead: number): Promise<void> {
    const { tail, toRemember } = this.#ledger
    await this.#position.keep({ reserved: Math.max(this.reserved, tail + ahead), missing: toRemember })
  }

  #tellMode (): void {
    const status = this.status()
    for (const fn of [...this.#modeListeners]) fn(status)
  }
}
