import { Listeners, type Logger, type Session } from '../../kernel/cluster.js'
import type { ElectionDriver } from './driver.js'
import type { Leader } from './election/protocol.js'

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

  get sessionId (): string { return this.#driver.leader?.sid ?? this.#last }
  get term (): number { return this.#driver.leader?.term ?? this.#term }
  get isMaster (): boolean { return this.#driver.isMaster && this.#driver.leader?.master === this.#self }

  get masterNodeId (): string | null {
    const { leader } = this.#driver
    return leader === null ? null : this.#nodeIdOf(leader.master)
  }

  get before (): string | null { return this.#before }

  onChange (fn: () => void): () => void { return this.#listeners.add(fn) }

  changed (next: Leader | null): void {
    if (next !== null) {
      if (next.sid !== this.#last) this.#before = this.#last === '' ? null : this.#last
      this.#last = next.sid
      this.#term = next.term
    }
    this.#listeners.tell()
  }
}
