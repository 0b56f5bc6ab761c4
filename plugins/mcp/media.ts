import { randomUUID } from 'node:crypto'
import type { Clock } from '../../kernel/index.js'

/** How long media wait to be read, ms; the bytes of all that wait. */
const KEPT_MS = 10 * 60 * 1000
const KEPT_BYTES = 64 * 1024 * 1024

/** Bytes that a call gave and that are too many for its answer. */
export interface Kept { readonly uri: string, readonly mimeType: string, readonly bytes: Uint8Array }

interface Entry extends Kept { readonly owner: string, readonly until: number }

/** Keeps media for those who made them, for a while; the oldest go when there are too many. */
export class MediaCache {
  readonly #clock: Pick<Clock, 'mono'>
  readonly #entries = new Map<string, Entry>()

  constructor (clock: Pick<Clock, 'mono'>) { this.#clock = clock }

  keep (owner: string, mimeType: string, bytes: Uint8Array): Kept {
    const entry = { uri: `svc://media/${randomUUID()}`, mimeType, bytes, owner,
      until: this.#clock.mono() + KEPT_MS }
    this.#entries.set(entry.uri, entry)
    let total = [...this.#entries.values()].reduce((sum, one) => sum + one.bytes.byteLength, 0)
    for (const [uri, { until, bytes: { byteLength } }] of this.#entries) {
      if (until > this.#clock.mono() && total <= KEPT_BYTES) break
      this.#entries.delete(uri)
      total -= byteLength
    }
    return entry
  }

  /** Undefined for what is gone, and for what somebody else made. */
  find (owner: string, uri: string): Kept | undefined {
    return this.of(owner).find((entry) => entry.uri === uri)
  }

  of (owner: string): Kept[] {
    return [...this.#entries.values()]
      .filter((entry) => entry.owner === owner && entry.until > this.#clock.mono())
  }
}
