import { backoffMs, type Clock } from '../../../kernel/index.js'
import { RateMeter } from './progress.js'
import { SourceFault, type ByteRange, type ChunkSource, type TransferLimits } from './types.js'

const CHECK_MS = 1000

/** Reads from a source with timeouts and a minimum rate; never waits for the source's cleanup. */
export class SourceReader {
  readonly #clock: Clock
  readonly #limits: TransferLimits
  /** Measured over the time spent waiting for the source, so that a slow local disk does not matter. */
  readonly #rate: RateMeter
  readonly #abort = new AbortController()
  #limitMs: number
  #waitedMs = 0
  #since: number | undefined
  #leave: ((error: Error) => void) | undefined

  constructor (clock: Clock, limits: TransferLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#limitMs = limits.connectMs
    this.#rate = new RateMeter(limits.floorWindowMs)
    this.#rate.add(0, 0)
  }

  stop (error: Error): void {
    this.#abort.abort(error)
    this.#leave?.(error)
  }

  async read (
    source: ChunkSource, path: string, range: ByteRange, take: (piece: Uint8Array) => Promise<void>
  ): Promise<void> {
    const unwatch = this.#clock.every(CHECK_MS, () => { this.#check() })
    let pieces: AsyncIterator<Uint8Array> | undefined
    let ended = false
    try {
      const body = await this.#wait(async () => await source.read(path, range, this.#abort.signal))
      pieces = body[Symbol.asyncIterator]()
      this.#limitMs = this.#limits.idleMs
      await this.#take(pieces, range.end - range.start, take)
      ended = true
    } finally {
      unwatch()
      if (!ended) this.#discard(pieces)
    }
  }

  async #take (
    pieces: AsyncIterator<Uint8Array>, length: number, take: (piece: Uint8Array) => Promise<void>
  ): Promise<void> {
    let got = 0
    for (;;) {
      // Read to the end of the stream, even after the last expected byte, for connection reuse.
      const next = await this.#wait(async () => await pieces.next())
      if (next.done === true) break
      const piece = next.value
      if (piece.length > length - got) throw new SourceFault(`sent more than the requested ${length} bytes`)
      got += piece.length
      this.#rate.add(got, this.#waitedMs)
      await take(piece)
    }
    if (got < length) throw new SourceFault(`ended after ${got} of ${length} bytes`)
  }

  async #wait<T> (step: () => Promise<T>): Promise<T> {
    if (this.#abort.signal.aborted) throw this.#abort.signal.reason
    this.#since = this.#clock.mono()
    try {
      return await new Promise<T>((resolve, reject) => {
        this.#leave = reject
        step().then(resolve, reject)
      })
    } catch (error) {
      if (this.#abort.signal.aborted) throw this.#abort.signal.reason
      if (error instanceof SourceFault) throw error
      throw new SourceFault(error instanceof Error ? error.message : String(error), error)
    } finally {
      this.#waitedMs += this.#clock.mono() - this.#since
      this.#since = undefined
    }
  }

  #check (): void {
    if (this.#since === undefined) return
    const waiting = this.#clock.mono() - this.#since
    const waited = this.#waitedMs + waiting
    const { floorBytesPerSecond: floor, floorWindowMs } = this.#limits
    if (waiting >= this.#limitMs) {
      this.stop(new SourceFault(`sent nothing for ${Math.round(waiting / 1000)} s`))
    } else if (waited >= floorWindowMs && this.#rate.rate(waited) < floor) {
      this.stop(new SourceFault(`sent less than ${floor / 1024} KiB/s for ${floorWindowMs / 1000} s`))
    }
  }

  /** Ends the iterator without waiting for the source, which may never answer. */
  #discard (pieces: AsyncIterator<Uint8Array> | undefined): void {
    this.#abort.abort(new Error('the transfer reads no further'))
    Promise.resolve(pieces?.return?.()).catch(() => {})
  }
}

interface Score { failures: number, restUntil: number, busy: number, fault: SourceFault | undefined }

export function pauseMs (
  failures: number, limits: Pick<TransferLimits, 'backoffMs' | 'backoffMaxMs'>, random: () => number
): number {
  return backoffMs(failures, { minMs: limits.backoffMs, maxMs: limits.backoffMaxMs }, random())
}

export class SourceScores {
  readonly #limits: TransferLimits
  readonly #random: () => number
  readonly #scores = new Map<string, Score>()
  readonly #blamed = new Map<number, Set<string>>()
  readonly #wrong = new Map<number, number>()
  readonly #restarts = new Map<number, number>()

  constructor (limits: TransferLimits, random: () => number) {
    this.#limits = limits
    this.#random = random
  }

  of (id: string): Score {
    let score = this.#scores.get(id)
    if (score === undefined) {
      this.#scores.set(id, score = { failures: 0, restUntil: 0, busy: 0, fault: undefined })
    }
    return score
  }

  /** Whether a source failed too often; it is then used only while others keep the transfer running. */
  dead (id: string): boolean { return this.of(id).failures > this.#limits.retries }

  /** Pauses a source after a failure; failures count from 1 again if it had sent enough (`useful`). */
  failed (id: string, fault: SourceFault, now: number, useful: boolean): void {
    const score = this.of(id)
    score.failures = useful ? 1 : score.failures + 1
    const pause = Math.max(fault.retryAfterMs ?? 0, pauseMs(score.failures, this.#limits, this.#random))
    score.restUntil = now + pause
    score.fault = fault
  }

  succeeded (id: string): void { this.of(id).failures = 0 }

  /** Counts restarts of a chunk whose source cannot resume; returns the number so far. */
  restarted (chunk: number): number {
    const times = (this.#restarts.get(chunk) ?? 0) + 1
    this.#restarts.set(chunk, times)
    return times
  }

  /** Counts wrong hashes for a chunk; returns the number so far. */
  wrong (chunk: number, givers: Iterable<string>): number {
    const blamed = this.#blamed.get(chunk) ?? new Set()
    for (const id of givers) blamed.add(id)
    this.#blamed.set(chunk, blamed)
    const times = (this.#wrong.get(chunk) ?? 0) + 1
    this.#wrong.set(chunk, times)
    return times
  }

  blamed (id: string, chunk: number): boolean { return this.#blamed.get(chunk)?.has(id) === true }

  faults (): string {
    const told = [...this.#scores].filter(([, { fault }]) => fault !== undefined)
    return told.map(([id, { fault }]) => `${id}: ${fault!.message}`).join('; ')
  }
}
