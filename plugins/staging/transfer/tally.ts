import type { Progress } from '../types.js'
import type { ChunkTable } from './chunks.js'
import type { FetchOptions } from './types.js'

/** New bytes after which the space on disk is looked at again. */
export const SPACE_BYTES = 1024 ** 3

type TallyOptions = Pick<FetchOptions, 'manifest' | 'onProgress' | 'space' | 'spaceEveryBytes'>

/** Counts bytes and files of a transfer, tells the progress and asks for space. */
export class Tally {
  readonly #options: TallyOptions
  /** Chunks still missing, per file. */
  readonly #open = new Map<string, number>()
  #files = 0
  #bytes = 0
  #told = 0
  #sinceSpace = 0
  #refusal: { error: unknown } | undefined

  constructor (options: TallyOptions, chunks: ChunkTable) {
    this.#options = options
    for (const { path } of options.manifest.files) {
      const { count } = chunks.of(path)
      if (count === 0) this.#files++
      else this.#open.set(path, count)
    }
  }

  /** Bytes that are there from an earlier run. */
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

  /** Bytes that turned out wrong. */
  lost (bytes: number): void { this.#bytes -= bytes }

  /** One more chunk of a file is right. */
  completed (path: string): void {
    const left = this.#open.get(path)! - 1
    this.#open.set(path, left)
    if (left === 0) this.#files++
    this.tell()
  }

  /** Whether an error is what `space` threw. */
  refused (error: unknown): boolean { return this.#refusal !== undefined && this.#refusal.error === error }

  async #ask (space: (bytesToGo: number) => Promise<void>): Promise<void> {
    try {
      await space(this.#options.manifest.totalBytes - this.#bytes)
    } catch (error) {
      this.#refusal = { error }
      throw error
    }
  }

  /** Tells the progress. The bytes of a wrong chunk are fetched again: until then the figure stands still. */
  tell (): void {
    const { manifest: { totalBytes, files }, onProgress } = this.#options
    this.#told = Math.max(this.#told, this.#bytes)
    onProgress?.({ bytes: this.#told, totalBytes, files: this.#files, totalFiles: files.length })
  }
}
