/**
 * Credit-based flow control in chunks and bytes. A chunk may be sent while both credits are above zero, so
 * that one chunk larger than the rest of the window still passes; the next waits for more credit.
 */
export class CreditWindow {
  #chunks: number
  #bytes: number

  constructor (chunks: number, bytes: number) {
    this.#chunks = chunks
    this.#bytes = bytes
  }

  get open (): boolean { return this.#chunks > 0 && this.#bytes > 0 }

  take (bytes: number): void {
    this.#chunks -= 1
    this.#bytes -= bytes
  }

  grant (chunks: number, bytes: number): void {
    this.#chunks += chunks
    this.#bytes += bytes
  }
}

/** Collects the credit of chunks that were read and returns it in lots of a quarter of the window. */
export class CreditReturn {
  readonly #lotChunks: number
  readonly #lotBytes: number
  #chunks = 0
  #bytes = 0

  constructor (windowChunks: number, windowBytes: number) {
    this.#lotChunks = Math.max(1, windowChunks >> 2)
    this.#lotBytes = Math.max(1, windowBytes >> 2)
  }

  /** Counts one chunk that was read; returns the credit to grant, or null while it is not worth a frame. */
  taken (bytes: number): { chunks: number, bytes: number } | null {
    this.#chunks += 1
    this.#bytes += bytes
    if (this.#chunks < this.#lotChunks && this.#bytes < this.#lotBytes) return null
    const lot = { chunks: this.#chunks, bytes: this.#bytes }
    this.#chunks = 0
    this.#bytes = 0
    return lot
  }
}
