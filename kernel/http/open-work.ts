import type { SvcError } from '../api/errors.js'
import type { Clock } from '../api/clock.js'

export interface Unfinished {
  /** Aborts what its handler does. */
  abort (error: SvcError): void
  /** Ends it now, whatever its handler still does. */
  abandon (error: SvcError): void
}

/** The open requests of one owner of routes, which end together when it stops. */
export class OpenWork {
  readonly #open = new Set<Unfinished>()
  #why: (() => SvcError) | undefined
  #emptied: (() => void) | undefined

  /** Why it stops, a new error for each reader; undefined while it runs. */
  get ending (): SvcError | undefined { return this.#why?.() }

  /** Aborts every open request, and every later one at once. */
  stop (why: () => SvcError): void {
    if (this.#why !== undefined) return
    this.#why = why
    for (const one of [...this.#open]) one.abort(why())
  }

  enter (one: Unfinished): void {
    this.#open.add(one)
    if (this.#why !== undefined) one.abort(this.#why())
  }

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
