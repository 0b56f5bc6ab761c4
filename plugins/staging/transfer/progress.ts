import type { ChunkTable } from './chunks.js'
import type { FetchOptions } from './types.js'

/** Number of new bytes between two checks of the disk space. */
export const SPACE_BYTES = 1024 ** 3

type TallyOptions = Pick<FetchOptions, 'manifest' | 'onProgress' | 'space' | 'spaceEveryBytes'>

/** Counts the bytes and files of a transfer, reports progress and checks the disk space. */
export class Tally {
  readonly #options: TallyOptions
  readonly #refused: (error: unknown) => void
  readonly #open = new Map<string, number>()
  #files = 0
  #bytes = 0
  #sinceSpace = 0

  /** `refused` is called with the error if `space` refuses more bytes. */
  constructor (options: TallyOptions, chunks: ChunkTable, refused: (error: unknown) => void) {
    this.#options = options
    this.#refused = refused
    for (const { path } of options.manifest.files) {
      const { count } = chunks.of(path)
      if (count === 0) this.#files++
      else this.#open.set(path, count)
    }
  }

  has (bytes: number): void { this.#bytes += bytes }

  /** Counts written bytes. If a check of the disk space is due, returns its promise, which may reject. */
  wrote (bytes: number): Promise<void> | undefined {
    this.#bytes += bytes
    this.#sinceSpace += bytes
    this.tell()
    const { space, spaceEveryBytes = SPACE_BYTES } = this.#options
    if (this.#sinceSpace < spaceEveryBytes || space === undefined) return undefined
    this.#sinceSpace = 0
    return this.#ask(space)
  }

  lost (bytes: number): void { this.#bytes -= bytes }

  completed (path: string): void {
    const left = this.#open.get(path)! - 1
    this.#open.set(path, left)
    if (left === 0) this.#files++
    this.tell()
  }

  async #ask (space: (bytesToGo: number) => Promise<void>): Promise<void> {
    try {
      await space(this.#options.manifest.totalBytes - this.#bytes)
    } catch (error) {
      this.#refused(error)
      throw error
    }
  }

  tell (): void {
    const { manifest: { totalBytes, files }, onProgress } = this.#options
    onProgress?.({ bytes: this.#bytes, totalBytes, files: this.#files, totalFiles: files.length })
  }
}

interface Sample { atMs: number, bytes: number }

/** Shortest time between two samples in ms; closer samples are merged. */
const GRAIN_MS = 100

/** Computes bytes per second over a sliding window from a growing total. Times are monotonic milliseconds. */
export class RateMeter {
  readonly #windowMs: number
  readonly #samples: Sample[] = []

  constructor (windowMs = 10_000) { this.#windowMs = windowMs }

  /** `bytes` is the total at `nowMs`. The first call sets the reference. */
  add (bytes: number, nowMs: number): void {
    const samples = this.#samples
    const last = samples.at(-1)
    // Never overwrite the first sample, because the rate is computed from it.
    if (samples.length > 1 && last !== undefined && nowMs - last.atMs < GRAIN_MS) last.bytes = bytes
    else samples.push({ atMs: nowMs, bytes })
    this.#forget(nowMs)
  }

  rate (nowMs: number): number {
    this.#forget(nowMs)
    const first = this.#samples[0]
    const last = this.#samples.at(-1)
    if (first === undefined || last === undefined || nowMs <= first.atMs) return 0
    return Math.max(0, (last.bytes - first.bytes) / (nowMs - first.atMs) * 1000)
  }

  /** Drops samples before the window, except the newest, which is the total at the window's start. */
  #forget (nowMs: number): void {
    const start = nowMs - this.#windowMs
    while (this.#samples.length > 1 && this.#samples[1]!.atMs <= start) this.#samples.shift()
    const first = this.#samples[0]
    if (first !== undefined && first.atMs < start) first.atMs = start
  }
}
