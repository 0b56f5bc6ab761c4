import { setMaxListeners } from 'node:events'
import type { SvcError } from '../api/errors.js'
import type { Clock } from '../api/clock.js'

/** A request that is not answered to its end yet. */
export interface Unfinished {
  /** Ends it now, whatever its handler still does. */
  abandon (error: SvcError): void
}

/** The open requests of one owner of routes, which end together when it stops. */
export class OpenWork {
  readonly #controller = new AbortController()
  readonly #open = new Set<Unfinished>()
  #why: (() => SvcError) | undefined
  #emptied: (() => void) | undefined

  constructor () {
    // Every open request listens.
    setMaxListeners(0, this.#controller.signal)
  }

  /** Aborts once the owner stops. */
  get signal (): AbortSignal { return this.#controller.signal }

  /** Why it stops, an error of its own for each that asks; undefined while it runs. */
  get ending (): SvcError | undefined { return this.#why?.() }

  /** Tells every open request to end, and every later one at once. */
  stop (why: () => SvcError): void {
    this.#why ??= why
    this.#controller.abort()
  }

  enter (one: Unfinished): void { this.#open.add(one) }

  leave (one: Unfinished): void {
    this.#open.delete(one)
    if (this.#open.size === 0) this.#emptied?.()
  }

  /** After `stop`: resolves when all have ended; those that have not after `graceMs` are ended. */
  async ended (clock: Clock, graceMs: number): Promise<void> {
    if (this.#open.size === 0) return
    await new Promise<void>((resolve) => {
      const cancel = clock.after(graceMs, () => {
        for (const one of [...this.#open]) one.abandon(this.#why!())
        resolve()
      })
      this.#emptied = () => { cancel(); resolve() }
    })
  }
}
