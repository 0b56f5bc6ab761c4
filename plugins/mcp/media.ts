import { randomUUID } from 'node:crypto'
import type { Clock } from '../../kernel/index.js'

/** Lifetime of stored media in ms, and the limit on the bytes of all stored media. */
const LIFETIME_MS = 10 * 60 * 1000
const CACHE_BYTES = 64 * 1024 * 1024

/** Media that are too large for a tool result. */
export interface StoredMedia { readonly uri: string, readonly mimeType: string, readonly bytes: Uint8Array }

interface Entry extends StoredMedia { readonly owner: string, readonly until: number }

/** Stores media for the client whose call produced them; the oldest are evicted first. */
export class MediaCache {
  readonly #clock: Pick<Clock, 'mono'>
  readonly #entries = new Map<string, Entry>()

  constructor (clock: Pick<Clock, 'mono'>) { this.#clock = clock }

  keep (owner: string, mimeType: string, bytes: Uint8Array): StoredMedia {
    const entry = { uri: `svc://media/${randomUUID()}`, mimeType, bytes, owner,
      until: this.#clock.mono() + LIFETIME_MS }
    this.#entries.set(entry.uri, entry)
    let total = [...this.#entries.values()].reduce((sum, one) => sum + one.bytes.byteLength, 0)
    for (const [uri, { until, bytes: { byteLength } }] of this.#entries) {
      if (until > this.#clock.mono() && total <= CACHE_BYTES) break
      this.#entries.delete(uri)
      total -= byteLength
    }
    return entry
  }

  /** Finds a client's media; undefined if they have expired or belong to another client. */
  find (owner: string, uri: string): StoredMedia | undefined {
    return this.of(owner).find((entry) => entry.uri === uri)
  }

  of (owner: string): StoredMedia[] {
    return [...this.#entries.values()]
      .filter((entry) => entry.owner === owner && entry.until > this.#clock.mono())
  }
}
