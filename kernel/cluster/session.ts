import { Listeners } from './listeners.js'
import type { Logger } from '../api/plugin.js'
import type { Session } from '../api/services.js'
import type { ElectionDriver } from './driver.js'
import type { Leader } from './election/protocol.js'

/** The session as plugins and `/state` know it. */
export class SessionView implements Session {
  readonly #driver: Pick<ElectionDriver, 'leader' | 'isMaster'>
  readonly #nodeIdOf: (installId: string) => string | null
  readonly #self: string
  readonly #listeners: Listeners<void>
  #last = ''
  #before: string | null = null
  #term = 0

  constructor (
    driver: Pick<ElectionDriver, 'leader' | 'isMaster'>, nodeIdOf: (installId: string) => string | null,
    self: string, log: Logger
  ) {
    this.#listeners = new Listeners(log)
    this.#driver = driver
    this.#nodeIdOf = nodeIdOf
    this.#self = self
  }

  /** Empty before the first session. */
  get sessionId (): string { return this.#driver.leader?.sid ?? this.#last }
  get term (): number { return this.#driver.leader?.term ?? this.#term }
  get isMaster (): boolean { return this.#driver.isMaster && this.#driver.leader?.master === this.#self }

  get masterNodeId (): string | null {
    const { leader } = this.#driver
    return leader === null ? null : this.#nodeIdOf(leader.master)
  }

  /** The session before this one; null for the first. */
  get before (): string | null { return this.#before }

  onChange (fn: () => void): () => void { return this.#listeners.add(fn) }

  /** The election has another session or term, or none. */
  changed (next: Leader | null): void {
    if (next !== null) {
      if (next.sid !== this.#last) this.#before = this.#last === '' ? null : this.#last
      this.#last = next.sid
      this.#term = next.term
    }
    this.#listeners.tell()
  }
}

type StreamDriver = Pick<ElectionDriver, 'leader' | 'openStream' | 'closeStream'>

/**
 * Open command streams and the sessions they belong to. The core ends each of them once when its session
 * ends; one that is opened while no master is known belongs to the session that comes next.
 */
export class SessionStreams {
  readonly #driver: StreamDriver
  readonly #ends = new Map<string, () => void>()
  readonly #unbound = new Set<string>()

  constructor (driver: StreamDriver) { this.#driver = driver }

  /** `end` is called once if the session ends first. Returns what to call when the stream ended by itself. */
  open (id: string, end: () => void): () => void {
    this.#ends.set(id, end)
    if (this.#driver.leader === null) this.#unbound.add(id)
    else this.#driver.openStream(id)
    return () => {
      this.#ends.delete(id)
      if (!this.#unbound.delete(id)) this.#driver.closeStream(id)
    }
  }

  /** A session began. */
  bind (): void {
    const waiting = [...this.#unbound]
    this.#unbound.clear()
    for (const id of waiting) this.#driver.openStream(id)
  }

  /** The core says that a stream's session ended. */
  terminal (id: string): void {
    const end = this.#ends.get(id)
    this.#ends.delete(id)
    end?.()
  }
}
