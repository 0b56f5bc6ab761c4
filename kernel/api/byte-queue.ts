/**
 * A queue of bytes, written and read in chunks of any size. No Node imports, since the dashboard page uses
 * it.
 */
export class ByteQueue {
  #pieces: Uint8Array[] = []
  #length = 0

  get length (): number { return this.#length }

  push (bytes: Uint8Array): void {
    this.#pieces.push(bytes)
    this.#length += bytes.byteLength
  }

  /** Copies the next bytes, since a small slice would keep the whole read buffer alive. */
  take (count: number): Uint8Array<ArrayBuffer> {
    const out = new Uint8Array(count)
    let [filled, pieces] = [0, 0]
    while (filled < count) {
      const piece = this.#pieces[pieces]!
      const used = piece.subarray(0, count - filled)
      out.set(used, filled)
      filled += used.byteLength
      if (used.byteLength === piece.byteLength) pieces++
      else this.#pieces[pieces] = piece.subarray(used.byteLength)
    }
    this.#pieces.splice(0, pieces)
    this.#length -= count
    return out
  }
}
