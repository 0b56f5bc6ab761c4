/** Conversations stored for clients, in memory, with least-recently-used eviction. */

interface Entry<T> { owner: string, value: T, bytes: number }

/** Values by id, each visible to its owner only. The least recently used are evicted first. */
export class ResponseStore<T extends object> {
  readonly #bytes: number
  readonly #entries = new Map<string, Entry<T>>()
  #used = 0

  /** `bytes`: limit on the JSON size of all values together, kept by evicting old values. */
  constructor (bytes: number) { this.#bytes = bytes }

  /** Does not store a value that is larger than the whole limit. */
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

  get (id: string, owner: string): T | undefined {
    const entry = this.#entries.get(id)
    if (entry?.owner !== owner) return undefined
    this.#entries.delete(id)
    this.#entries.set(id, entry)
    return entry.value
  }

  /** Deletes a value; false if the caller has no value under the id. */
  delete (id: string, owner: string): boolean {
    return this.#entries.get(id)?.owner === owner && this.#remove(id)
  }

  #remove (id: string): boolean {
    this.#used -= this.#entries.get(id)?.bytes ?? 0
    return this.#entries.delete(id)
  }
}
