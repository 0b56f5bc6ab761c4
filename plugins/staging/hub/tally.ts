import type { Progress } from '../types.js'
import type { HubSelection } from './types.js'

/** Adds up what the files of one download have; what it tells never falls. */
export class Tally {
  readonly #selection: HubSelection
  readonly #tell: (progress: Progress) => void
  /** The most bytes each file had so far. */
  readonly #most = new Map<string, number>()
  #bytes = 0
  #files = 0

  constructor (selection: HubSelection, tell: (progress: Progress) => void) {
    this.#selection = selection
    this.#tell = tell
  }

  /** Bytes that are still to come. */
  get bytesToGo (): number { return this.#selection.totalBytes - this.#bytes }

  /** A file has `bytes` now. */
  has (path: string, bytes: number): void {
    const gain = bytes - (this.#most.get(path) ?? 0)
    if (gain <= 0) return
    this.#most.set(path, bytes)
    this.#bytes += gain
    this.#report()
  }

  /** A file is complete and right. */
  finished (): void {
    this.#files++
    this.#report()
  }

  #report (): void {
    const { totalBytes, files } = this.#selection
    this.#tell({ bytes: this.#bytes, totalBytes, files: this.#files, totalFiles: files.length })
  }
}
