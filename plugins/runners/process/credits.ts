/**
 * A credit window in chunks and bytes. A chunk may be sent while both are above zero, so that one chunk
 * larger than what is left still passes; the next one waits until the reader has given back.
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

/** Collects what the reader has taken and gives it back in lots, a quarter of the window at a time. */
export class CreditReturn {
  readonly #lotChunks: number
  readonly #lotBytes: number
  #chunks = 0
  #bytes = 0

  constructor (windowChunks: number, windowBytes: number) {
    this.#lotChunks = Math.max(1, windowChunks >> 2)
    this.#lotBytes = Math.max(1, windowBytes >> 2)
  }

  /** Notes one taken chunk; returns the lot to grant, or null while it is too small to be worth a frame. */
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
