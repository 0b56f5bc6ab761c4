import type { WireEntry } from './control-body.js'

const MAX_ENTRIES = 512
const MAX_BYTES = 512 * 1024

/** The newest entries of one document, so that followers need not get all of it. */
export class Ring {
  #entries: WireEntry[] = []
  #bytes = 0
  /** Where the entries begin. */
  #base: { seq: number, digest: string }

  constructor (seq: number, digest: string) { this.#base = { seq, digest } }

  push (entry: WireEntry): void {
    this.#entries.push(entry)
    this.#bytes += entry.update.length
    while (this.#entries.length > MAX_ENTRIES || this.#bytes > MAX_BYTES) this.#shift()
  }

  /** The digest at an entry; undefined when it is not held any more. */
  digestAt (seq: number): string | undefined {
    return seq === this.#base.seq ? this.#base.digest : this.#at(seq)?.digest
  }

  /** Entries after `seq`; undefined when some are not held any more. */
  since (seq: number): readonly WireEntry[] | undefined {
    return seq < this.#base.seq ? undefined : this.#entries.slice(seq - this.#base.seq)
  }

  #at (seq: number): WireEntry | undefined { return this.#entries[seq - this.#base.seq - 1] }

  #shift (): void {
    const first = this.#entries.shift()
    if (first === undefined) return
    this.#bytes -= first.update.length
    this.#base = { seq: first.seq, digest: first.digest }
  }
}
