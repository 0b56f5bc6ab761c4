import type { FileHandle } from 'node:fs/promises'
import { openInside } from '../files/open.js'
import { manifestDigest } from '../files/record.js'
import { StoreError } from '../types.js'
import { diskError, SourceFault, DEFAULT_LIMITS, LONG_WAIT_MS } from './types.js'
import { allChunks, Swarm, type Supplier } from './swarm.js'
import { Journal, readJournal, findKept } from './journal.js'
import { pauseMs, SourceReader, SourceScores } from './source-reader.js'
import { Tally } from './progress.js'
import { beginWork, chunksOf, chunkWriter, type ChunkTable, type Work } from './chunks.js'
import type { ChunkSource, FetchOptions, TransferLimits } from './types.js'

/** Chunk size up to which one source may use all of `parallel`, because the round trip dominates. */
const SMALL_BYTES = 1024 * 1024

/**
 * Fetches the missing chunks of a model from several sources in parallel; resolves when all files are
 * complete and verified. Resumes an interrupted transfer of the same folder. Throws StoreError, the signal's
 * reason, or the error from `space`; fetched bytes stay for the next attempt.
 */
export async function fetchModel (options: FetchOptions): Promise<void> {
  options.signal?.throwIfAborted()
  await new Transfer(options).run()
}

class Transfer {
  readonly #options: FetchOptions
  readonly #limits: TransferLimits
  readonly #table: ChunkTable
  readonly #swarm: Swarm
  readonly #scores: SourceScores
  readonly #tally: Tally
  readonly #missing: Set<number>
  readonly #small = new Set<number>()
  readonly #begun = new Map<number, Work>()
  readonly #inFlight = new Map<number, SourceReader>()
  #journal: Journal | undefined
  #ended: { error: unknown } | undefined
  #wake: () => void = () => {}
  #emptyLooks = 0
  #cancelLook: (() => void) | undefined

  constructor (options: FetchOptions) {
    this.#options = options
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits }
    this.#table = 'chunks' in options.manifest ? options.manifest.chunks : chunksOf(options.manifest)
    this.#swarm = options.swarm ?? new Swarm(this.#table.count)
    this.#scores = new SourceScores(this.#limits, options.random)
    this.#tally = new Tally(options, this.#table, (error) => { this.#end(error) })
    this.#missing = allChunks(this.#table.count)
    for (const { path, size } of options.manifest.files) {
      if (size > 0 && size <= SMALL_BYTES) this.#small.add(this.#table.of(path).first)
    }
  }

  async run (): Promise<void> {
    const { signal, onSources } = this.#options
    const abort = (): void => { this.#end(signal?.reason) }
    signal?.addEventListener('abort', abort)
    const stops = [this.#swarm.onChange(() => { this.#wake() }), onSources?.(() => { this.#wake() })]
    try {
      await this.#resume()
      await this.#fetchAll()
    } finally {
      signal?.removeEventListener('abort', abort)
      for (const stop of stops) stop?.()
      this.#cancelLook?.()
      await this.#journal?.close()
    }
    // Check for errors, because writing the last journal lines may have failed.
    this.#throwIfEnded()
  }

  /** Verifies the bytes on disk. Starts a new journal, which is not needed if each file is one chunk. */
  async #resume (): Promise<void> {
    const { folder, manifest, signal } = this.#options
    const digest = 'chunks' in manifest ? null : manifestDigest(manifest)
    try {
      const journal = digest === null ? undefined : await readJournal(folder)
      const claims = digest === null ? 'first bytes' : journal?.digest === digest ? journal : 'whole chunks'
      const kept = await findKept(folder, manifest.files, this.#table, claims, signal)
      for (const work of kept.begun) {
        this.#begun.set(work.number, work)
        this.#tally.has(work.done)
      }
      for (const chunk of kept.complete) {
        const { start, end } = this.#table.at(chunk)
        this.#tally.has(end - start)
        this.#complete(chunk)
      }
      this.#tally.tell()
      if (digest === null) return
      const failed = (error: unknown): void => { this.#end(diskError(error, folder)) }
      this.#journal = await Journal.begin(folder, digest, kept, failed)
    } catch (error) {
      if (signal?.aborted === true) throw signal.reason
      throw diskError(error, folder)
    }
  }

  async #fetchAll (): Promise<void> {
    try {
      while (this.#missing.size > 0) {
        const woken = new Promise<void>((resolve) => { this.#wake = resolve })
        this.#throwIfEnded()
        const cancel = this.#fill()
        await woken
        cancel?.()
      }
    } finally { await this.#drain() }
  }

  /** Waits until no request is in flight, so that buffers are written and files closed. */
  async #drain (): Promise<void> {
    while (this.#inFlight.size > 0) {
      await new Promise<void>((resolve) => { this.#wake = resolve })
    }
  }

  #throwIfEnded (): void { if (this.#ended !== undefined) throw this.#ended.error }

  /** Ends the transfer with this error, unless an earlier error has ended it. */
  #end (error: unknown): void {
    if (this.#ended !== undefined) return
    this.#ended = { error }
    const stop = error instanceof Error ? error : new Error('the transfer was ended')
    for (const reader of this.#inFlight.values()) reader.stop(stop)
    this.#wake()
  }

  /** Starts as many chunks as allowed. Sets a timer for paused sources; returns its cancel function. */
  #fill (): (() => void) | undefined {
    const { clock } = this.#options
    // Use the same time for both checks; otherwise a pause could end between them and set no timer.
    const now = clock.mono()
    while (this.#inFlight.size < this.#limits.parallel && this.#beginOne(now)) { /* one more */ }
    if (this.#missing.size === this.#inFlight.size) return undefined
    const rests = this.#options.sources().map(({ id }) => this.#scores.of(id).restUntil - now)
    const soonest = Math.min(...rests.filter((ms) => ms > 0))
    if (this.#inFlight.size === 0) this.#waitForSource()
    if (soonest === Infinity || this.#ended !== undefined) return undefined
    return clock.after(soonest, () => { this.#wake() })
  }

  /** Starts one request if possible. Prefers other nodes to the store, and then the least busy source. */
  #beginOne (now: number): boolean {
    const ready = this.#options.sources().filter(({ id }) => this.#scores.of(id).restUntil <= now)
    const rank = ({ kind, id }: ChunkSource): number =>
      (kind === 'store' ? 1e6 : 0) + this.#scores.of(id).busy
    for (const source of ready.sort((a, b) => rank(a) - rank(b))) {
      const chunk = this.#choose(source, now)
      if (chunk === undefined) continue
      this.#begin(source, chunk)
      return true
    }
    return false
  }

  /** The next chunk to request from this source: an unfinished one, else the one that the swarm picks. */
  #choose (source: ChunkSource, now: number): number | undefined {
    const full = this.#scores.of(source.id).busy >= this.#limits.perSource
    const supplier: Supplier = {
      id: source.id, kind: source.kind,
      has: (i) => (!full || this.#small.has(i)) && source.has(i) && !this.#distrusted(source, i)
    }
    for (const i of this.#begun.keys()) if (!this.#inFlight.has(i) && supplier.has(i)) return i
    return this.#swarm.pick(supplier, this.#missing, this.#inFlight, this.#options.random, now)
  }

  /** Whether to avoid a source for a chunk: it sent wrong bytes for it, and another source has it. */
  #distrusted (source: ChunkSource, chunk: number): boolean {
    return this.#scores.blamed(source.id, chunk) && this.#options.sources().some((other) =>
      other.has(chunk) && !this.#scores.blamed(other.id, chunk) && !this.#scores.dead(other.id))
  }

  #begin (source: ChunkSource, chunk: number): void {
    if (!this.#scores.dead(source.id)) this.#sourceFound()
    const work = this.#begun.get(chunk) ?? beginWork(chunk, this.#table.at(chunk))
    const reader = new SourceReader(this.#options.clock, this.#limits)
    this.#begun.set(chunk, work)
    this.#inFlight.set(chunk, reader)
    this.#scores.of(source.id).busy++
    if (source.kind === 'store') this.#options.onTake?.(chunk)
    void this.#carryOut(source, work, reader)
  }

  async #carryOut (source: ChunkSource, work: Work, reader: SourceReader): Promise<void> {
    const before = work.done
    try {
      const fault = await this.#receive(source, work, reader)
      this.#settle(source, work, before, fault)
    } catch (error) {
      this.#end(error)
    } finally {
      this.#inFlight.delete(work.number)
      this.#scores.of(source.id).busy--
      this.#wake()
    }
  }

  /** Receives the rest of a chunk. Returns the source's fault; throws errors that end the transfer. */
  async #receive (source: ChunkSource, work: Work, reader: SourceReader): Promise<SourceFault | undefined> {
    const { file: { path } } = work.chunk
    try {
      const file = await openInside(this.#options.folder, path, 'update')
      try { return await this.#write(source, work, reader, file) } finally { await file.close() }
    } catch (error) {
      // The source's faults are returned and other failures set `#ended`, so this is a disk error.
      throw this.#ended === undefined ? diskError(error, path) : error
    }
  }

  async #write (
    source: ChunkSource, work: Work, reader: SourceReader, file: FileHandle
  ): Promise<SourceFault | undefined> {
    const { file: { path }, start, end } = work.chunk
    const writer = chunkWriter(work, file, (bytes) => this.#wrote(work, bytes))
    try {
      await reader.read(source, path, { start: start + work.done, end }, async (piece) => {
        work.givers.add(source.id)
        await writer.add(piece)
      })
      return undefined
    } catch (error) {
      if (!(error instanceof SourceFault)) throw error
      return error
    } finally { await writer.flush() }
  }

  #wrote (work: Work, bytes: number): Promise<void> | undefined {
    if (work.done < work.size) this.#journal?.partial(work.number, work.done)
    return this.#tally.wrote(bytes)
  }

  #settle (source: ChunkSource, work: Work, before: number, fault: SourceFault | undefined): void {
    const now = this.#options.clock.mono()
    const useful = work.done - before >= SMALL_BYTES
    if (fault !== undefined) this.#failed(source, work, fault, now, useful)
    if (work.done < work.size) return
    this.#begun.delete(work.number)
    if (!work.verifier.right()) return this.#wrong(source, work, now)
    if (fault === undefined) this.#scores.succeeded(source.id)
    this.#journal?.complete(work.number)
    this.#complete(work.number)
  }

  /** Pauses the source, or ends the transfer if a retry cannot help. */
  #failed (source: ChunkSource, work: Work, fault: SourceFault, now: number, useful: boolean): void {
    this.#scores.failed(source.id, fault, now, useful)
    if (!fault.retryable || (fault.retryAfterMs ?? 0) > LONG_WAIT_MS) this.#end(fault)
    if (!fault.startOver) return
    // The bytes of this chunk are discarded, so subtract them from the progress.
    this.#tally.lost(work.done)
    this.#begun.delete(work.number)
    if (this.#scores.restarted(work.number) >= this.#limits.hashRetries) this.#end(fault)
  }

  /** Starts a chunk with a wrong hash again from its first byte, with another source if possible. */
  #wrong (source: ChunkSource, work: Work, now: number): void {
    const { file: { path }, index } = work.chunk
    this.#journal?.partial(work.number, 0)
    this.#tally.lost(work.size)
    if (work.kept) return
    const fault = new SourceFault(`sent wrong bytes of chunk ${index} of ${path}`)
    this.#scores.failed(source.id, fault, now, false)
    const times = this.#scores.wrong(work.number, work.givers)
    if (times < this.#limits.hashRetries) return
    this.#end(new StoreError('hash', `chunk ${index} of ${path} had a wrong hash ${times} times ` +
    `(${this.#scores.faults()}); the source has a damaged copy, or the network changes it`))
  }

  #complete (chunk: number): void {
    this.#missing.delete(chunk)
    this.#tally.completed(this.#table.at(chunk).file.path)
    this.#options.onChunk?.(chunk)
  }

  /** If no request is in flight and no source is ready, waits for a source or gives up. */
  #waitForSource (): void {
    const sources = this.#options.sources()
    const alive = sources.filter(({ id }) => !this.#scores.dead(id))
    if (alive.some((source) => this.#useful(source))) return
    const exhausted = sources.length > 0 && alive.length === 0
    // If there is only one source, its failure may have a more specific reason than `no_source`.
    const only = sources.length === 1 ? this.#scores.of(sources[0]!.id).fault : undefined
    if (exhausted && only !== undefined && only.reason !== null) this.#end(only)
    else if (exhausted || this.#emptyLooks > this.#limits.retries) this.#end(this.#noSource())
    else if (this.#cancelLook === undefined) {
      this.#emptyLooks++
      const waitMs = pauseMs(this.#emptyLooks, this.#limits, this.#options.random)
      this.#cancelLook = this.#options.clock.after(waitMs, () => {
        this.#cancelLook = undefined
        this.#wake()
      })
    }
  }

  #useful (source: ChunkSource): boolean {
    for (const chunk of this.#missing) if (source.has(chunk)) return true
    return false
  }

  #sourceFound (): void {
    this.#emptyLooks = 0
    this.#cancelLook?.()
    this.#cancelLook = undefined
  }

  #noSource (): StoreError {
    const { modelId } = this.#options.manifest
    const faults = this.#scores.faults()
    return new StoreError('no_source',
      `no source for ${this.#missing.size} of ${this.#table.count} chunks of ${modelId}: ` +
      `${faults === '' ? 'no reachable node has them' : faults}; downloaded bytes are kept: ` +
      'start it again when a node that has the model can be reached')
  }
}
