import { join } from 'node:path'
import { readVersioned, writeVersioned, type Logger } from '../../../kernel/index.js'

interface Stored { revoked: string[], used: Record<string, string> }

const FORMAT = 1
/** Revoked ids and days of use that a node keeps, the newest ones. */
const MAX_NOTES = 1000

/**
 * What this node knows of keys besides the cluster's document: the revoked ones, because a document that wins
 * after a split, or comes from a backup, may lack the revocation; and the day of each key's last use here.
 */
export class KeyNotes {
  readonly #path: string
  readonly #log: Logger
  readonly #revoked: Set<string>
  readonly #used: Map<string, string>

  /** Throws HomeError for a file that is broken or from a later version of svc. */
  constructor ({ home, log }: { home: string, log: Logger }) {
    this.#path = join(home, 'state', 'key-notes.json')
    this.#log = log
    const { revoked = [], used = {} } = readVersioned<Partial<Stored>>(this.#path, FORMAT) ?? {}
    this.#revoked = new Set(revoked)
    this.#used = new Map(Object.entries(used))
  }

  get used (): ReadonlyMap<string, string> { return this.#used }
  isRevoked (id: string): boolean { return this.#revoked.has(id) }

  /** Holds even if the file cannot be written. */
  revoke (ids: readonly string[]): void {
    const more = ids.filter((id) => !this.#revoked.has(id))
    for (const id of more) this.#revoked.add(id)
    if (more.length > 0) this.#save()
  }

  /** True if the day changed. */
  use (id: string, day: string): boolean {
    if (this.#used.get(id) === day) return false
    this.#used.delete(id)
    this.#used.set(id, day)
    this.#save()
    return true
  }

  #save (): void {
    for (const kept of [this.#revoked, this.#used]) {
      for (const id of kept.keys()) if (kept.size > MAX_NOTES) kept.delete(id)
    }
    try {
      writeVersioned(this.#path, FORMAT,
        { revoked: [...this.#revoked], used: Object.fromEntries(this.#used) } satisfies Stored)
    } catch (err) {
      this.#log.error({ err }, 'the notes on keys could not be written')
    }
  }
}
