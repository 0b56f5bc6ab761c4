import { join } from 'node:path'
import { HomeError, readVersioned, writeVersioned } from '../../kernel/index.js'
import { idOf, isGenuine, isOver, joined } from './grants.js'
import type { Clock, Grant, Logger } from '../../kernel/index.js'
import type { Entry, Revocation } from './grants.js'

interface Stored { entries: Entry[], used: Record<string, string>, inTouch: string | null }

const FORMAT = 1
/** A bad entry is told at most so often. */
const TOLD_MAX = 20

export interface BookOptions {
  home: string
  clock: Clock
  log: Logger
  /** What is wrong with an entry's shape, or null. */
  problem: (entry: unknown) => string | null
}

/**
 * What this node knows of devices, in its home: a node that starts anew or is cut off knows it too, and a
 * revocation outlives the session in which it was made. It only grows, until grants have ended; put together
 * with what others know in any order it comes out the same.
 */
export class DeviceBook {
  readonly #options: BookOptions
  readonly #path: string
  readonly #entries = new Map<string, Entry>()
  readonly #used: Map<string, string>
  #inTouch: string | null
  #told = 0

  /** Throws HomeError for a file that is broken or of a later svc. */
  constructor (options: BookOptions) {
    this.#options = options
    this.#path = join(options.home, 'state', 'devices.json')
    const stored = readVersioned<Partial<Stored>>(this.#path, FORMAT)
    const { entries = [], used = {}, inTouch = null } = stored ?? {}
    if (!Array.isArray(entries)) {
      throw new HomeError(`${this.#path} holds no list of devices; restore it from a backup or remove it`)
    }
    this.#used = new Map(Object.entries(used))
    this.#inTouch = inTouch
    for (const entry of entries) this.#take(entry)
  }

  grant (deviceId: string): Grant | undefined { return this.#entries.get(deviceId)?.grant ?? undefined }
  revoked (deviceId: string): Revocation | undefined {
    return this.#entries.get(deviceId)?.revoked ?? undefined
  }

  entries (): Entry[] { return [...this.#entries.values()] }

  /** Wall time when this node was last in touch with its cluster, ms; null when that was never noted. */
  get inTouchMs (): number | null { return this.#inTouch === null ? null : Date.parse(this.#inTouch) }

  /** The day on which a device last used this node. */
  usedDay (deviceId: string): string | null { return this.#used.get(deviceId) ?? null }

  /** Notes the day of use; true when it is another one than before. */
  noteUse (deviceId: string, day: string): boolean {
    if (this.#used.get(deviceId) === day) return false
    this.#used.set(deviceId, day)
    this.#trySave()
    return true
  }

  noteTouch (): void {
    this.#inTouch = new Date(this.#options.clock.now()).toISOString()
    this.#trySave()
  }

  /**
   * Takes over what somebody else knows; what makes no sense is left out. A revocation counts from then on,
   * whether or not the disk takes it; returns whether anything was new.
   */
  merge (entries: Iterable<Entry>): boolean {
    let changed = false
    for (const entry of entries) changed = this.#take(entry) || changed
    if (changed) this.#trySave()
    return changed
  }

  /** Forgets what has ended for every clock. */
  collect (): void {
    const now = this.#options.clock.now()
    const over = [...this.#entries].filter(([, entry]) => isOver(entry, now)).map(([id]) => id)
    for (const id of over) {
      this.#entries.delete(id)
      this.#used.delete(id)
    }
    if (over.length > 0) this.#trySave()
  }

  #take (entry: Entry): boolean {
    const id = this.#readable(entry) ? idOf(entry) : ''
    if (id === '' || isOver(entry, this.#options.clock.now())) return false
    const known = this.#entries.get(id)
    const next = joined(known, entry)
    if (next === known || JSON.stringify(next) === JSON.stringify(known)) return false
    if (next.grant !== null && !isGenuine(next.grant)) {
      this.#tell(id, 'its signature does not fit')
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
    this.#options.log.warn({ deviceId, problem }, 'a grant of a device makes no sense and is left out')
  }

  /** A full disk must not keep a revocation from counting; nodeHealth tells of the disk. */
  #trySave (): void {
    try {
      const stored: Stored = {
        entries: this.entries(), used: Object.fromEntries(this.#used), inTouch: this.#inTouch
      }
      writeVersioned(this.#path, FORMAT, stored)
    } catch (err) {
      this.#options.log.error({ err }, 'the list of devices could not be written')
    }
  }
}
