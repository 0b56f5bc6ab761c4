import type { ChunkTable } from './chunks.js'
import type { FetchOptions } from './types.js'

/** New bytes after which the space on disk is looked at again. */
export const SPACE_BYTES = 1024 ** 3

type TallyOptions = Pick<FetchOptions, 'manifest' | 'onProgress' | 'space' | 'spaceEveryBytes'>

/** Counts bytes and files of a transfer, tells the progress and asks for space. */
export class Tally {
  readonly #options: TallyOptions
  readonly #refused: (error: unknown) => void
  readonly #open = new Map<string, number>()
  #files = 0
  #bytes = 0
  #sinceSpace = 0

  /** `refused` gets what `space` threw. */
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

  /** New bytes on disk. Returns a promise when the space is looked at; it rejects with what `space` threw. */
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

/** Samples closer together than this are one. */
const GRAIN_MS = 100

/** Bytes per second over a sliding window of a count that only grows. Times are monotonic milliseconds. */
export class RateMeter {
  readonly #windowMs: number
  readonly #samples: Sample[] = []

  constructor (windowMs = 10_000) {
    this.#windowMs = windowMs
  }

  /** Notes that `bytes` in all are there at `nowMs`. The first call sets the mark to count from. */
  add (bytes: number, nowMs: number): void {
    const samples = this.#samples
    const last = samples.at(-1)
    // The first one stays as it is: it is the mark that later ones are counted from.
    if (samples.length > 1 && last !== undefined && nowMs - last.atMs < GRAIN_MS) last.bytes = bytes
    else samples.push({ atMs: nowMs, bytes })
    this.#forget(nowMs)
  }

  /** Bytes per second in the window before `nowMs`; 0 when nothing came. */
  rate (nowMs: number): number {
    this.#forget(nowMs)
    const first = this.#samples[0]
    const last = this.#samples.at(-1)
    if (first === undefined || last === undefined || nowMs <= first.atMs) return 0
    return Math.max(0, (last.bytes - first.bytes) / (nowMs - first.atMs) * 1000)
  }

  /** Drops what lies before the window, but for the newest such sample: the count at its beginning. */
  #forget (nowMs: number): void {
    const start = nowMs - this.#windowMs
    while (this.#samples.length > 1 && this.#samples[1]!.atMs <= start) this.#samples.shift()
    const first = this.#samples[0]
    if (first !== undefined && first.atMs < start) first.atMs = start
  }
}
