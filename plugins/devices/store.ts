import { join } from 'node:path'
import { HomeError, readVersioned, writeVersioned, type Clock, type Logger } from '../../kernel/index.js'
import { idOf, isSignedByNode, hasExpired, mergeEntries, type Entry, type Revocation } from './grants.js'
import type { Grant } from './signing/protocol.js'

interface Stored { entries: Entry[] }

const FORMAT = 1
/** Maximum logged reports of invalid entries. */
const TOLD_MAX = 20

export interface BookOptions {
  home: string
  clock: Clock
  log: Logger
  /** Describes the fault in an entry's shape; null if it is valid. */
  problem: (entry: unknown) => string | null
}

/**
 * This node's list of devices, stored in its home, so that it survives restarts and loss of the cluster.
 * Entries, including revocations, stay until their grants expire; merging in any order gives the same result.
 */
export class DeviceStore {
  readonly #options: BookOptions
  readonly #path: string
  readonly #entries = new Map<string, Entry>()
  /** Entries that have already been merged; merging them again has no effect, because they are immutable. */
  readonly #seen = new WeakSet<Entry>()
  #told = 0

  /** Throws HomeError for a file that is broken or from a later version of svc. */
  constructor (options: BookOptions) {
    this.#options = options
    this.#path = join(options.home, 'state', 'devices.json')
    const { entries = [] } = readVersioned<Partial<Stored>>(this.#path, FORMAT) ?? {}
    if (!Array.isArray(entries)) {
      throw new HomeError(`${this.#path} contains no list of devices; restore it from a backup or remove it`)
    }
    for (const entry of entries) this.#take(entry)
  }

  grant (deviceId: string): Grant | undefined { return this.#entries.get(deviceId)?.grant ?? undefined }
  revoked (deviceId: string): Revocation | undefined {
    return this.#entries.get(deviceId)?.revoked ?? undefined
  }

  entry (deviceId: string): Entry | undefined { return this.#entries.get(deviceId) }
  entries (): Entry[] { return [...this.#entries.values()] }

  /**
   * Merges valid entries from other nodes. Revocations apply immediately, even if the file cannot be written.
   * Returns whether any entry was new. The caller must not change the entries.
   */
  merge (entries: Iterable<Entry>): boolean {
    let changed = false
    for (const entry of entries) changed = this.#take(entry) || changed
    if (changed) this.#trySave()
    return changed
  }

  collect (): string[] {
    const now = this.#options.clock.now()
    const over = [...this.#entries].filter(([, entry]) => hasExpired(entry, now)).map(([id]) => id)
    for (const id of over) this.#entries.delete(id)
    if (over.length > 0) this.#trySave()
    return over
  }

  #take (entry: Entry): boolean {
    if (this.#seen.has(entry)) return false
    const id = this.#readable(entry) ? idOf(entry) : ''
    if (id === '' || hasExpired(entry, this.#options.clock.now())) return false
    this.#seen.add(entry)
    const known = this.#entries.get(id)
    const next = mergeEntries(known, entry)
    if (next === known || JSON.stringify(next) === JSON.stringify(known)) return false
    if (next.grant !== null && !isSignedByNode(next.grant)) {
      this.#tell(id, 'its signature is invalid')
      return false
    }
    this.#entries.set(id, next)
    return true
  }

  #readable (entry: unknown): entry is Entry {
    const problem = this.#options.problem(entry)
    if (problem !== null) this.#tell('', problem)
    return problem === null
  }

  #tell (deviceId: string, problem: string): void {
    if (this.#told++ >= TOLD_MAX) return
    this.#options.log.warn({ deviceId, problem }, 'an invalid grant of a device is ignored')
  }

  /** Revocations apply even if they cannot be stored on a full disk, which nodeHealth reports. */
  #trySave (): void {
    try {
      writeVersioned(this.#path, FORMAT, { entries: this.entries() })
    } catch (err) {
      this.#options.log.error({ err }, 'the list of devices could not be written')
    }
  }
}
