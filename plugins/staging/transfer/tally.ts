import type { ManifestFile, ModelManifest, Progress } from '../types.js'

/** New bytes after which the space on disk is looked at again. */
export const SPACE_BYTES = 1024 ** 3

interface TallyOptions {
  manifest: ModelManifest
  onProgress?: (progress: Progress) => void
  space?: (bytesToGo: number) => Promise<void>
}

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

  constructor (options: TallyOptions) {
    this.#options = options
    for (const { path, chunkSha256 } of options.manifest.files) {
      if (chunkSha256.length === 0) this.#files++
      else this.#open.set(path, chunkSha256.length)
    }
  }

  /** Bytes that are there from an earlier run. */
  has (bytes: number): void { this.#bytes += bytes }

  /** New bytes on disk. Returns a promise when the space is looked at; it rejects with what `space` threw. */
  wrote (bytes: number): Promise<void> | undefined {
    this.#bytes += bytes
    this.#sinceSpace += bytes
    this.tell()
    if (this.#sinceSpace < SPACE_BYTES || this.#options.space === undefined) return undefined
    this.#sinceSpace -= SPACE_BYTES
    return this.#ask(this.#options.space)
  }

  /** Bytes that turned out wrong. */
  lost (bytes: number): void { this.#bytes -= bytes }

  /** One more chunk of a file is right. */
  completed (file: ManifestFile): void {
    const left = this.#open.get(file.path)! - 1
    this.#open.set(file.path, left)
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
