import type { ElectionDriver } from './driver.js'

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
