/** Conversations that clients have this node keep, in memory: the oldest go when the room is used up. */

interface Entry<T> { owner: string, value: T, bytes: number }

/** Values by id, each for the caller who had it kept. Those that were not used for longest go first. */
export class ResponseStore<T extends object> {
  readonly #bytes: number
  readonly #entries = new Map<string, Entry<T>>()
  #used = 0

  /** `bytes`: the most that all values may have, counted as JSON. */
  constructor (bytes: number) { this.#bytes = bytes }

  /** Keeps a value; one that is larger than all the room is not kept. */
  put (id: string, owner: string, value: T): void {
    this.#remove(id)
    const bytes = Buffer.byteLength(JSON.stringify(value))
    if (bytes > this.#bytes) return
    this.#entries.set(id, { owner, value, bytes })
    this.#used += bytes
    for (const [oldest] of this.#entries) {
      if (this.#used <= this.#bytes) return
      this.#remove(oldest)
    }
  }

  /** What that caller had kept under the id. */
  get (id: string, owner: string): T | undefined {
    const entry = this.#entries.get(id)
    if (entry?.owner !== owner) return undefined
    this.#entries.delete(id)
    this.#entries.set(id, entry)
    return entry.value
  }

  /** False where that caller has nothing under the id. */
  delete (id: string, owner: string): boolean {
    return this.#entries.get(id)?.owner === owner && this.#remove(id)
  }

  #remove (id: string): boolean {
    this.#used -= this.#entries.get(id)?.bytes ?? 0
    return this.#entries.delete(id)
  }
}
