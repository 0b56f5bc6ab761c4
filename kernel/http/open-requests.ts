import { kernelError, type SvcError } from '../api/errors.js'
import type { Caller } from '../api/plugin.js'
import type { Clock } from '../api/clock.js'

export interface OpenRequest {
  abort (error: SvcError): void
  /** Ends the request immediately, even if its handler still runs. */
  abandon (error: SvcError): void
}

/** The open requests of one route owner, which end together when the owner stops. */
export class OpenRequests {
  readonly #open = new Set<OpenRequest>()
  #why: (() => SvcError) | undefined
  #emptied: (() => void) | undefined

  /** A new error with the reason why the owner stopped; undefined while the owner runs. */
  get ending (): SvcError | undefined { return this.#why?.() }

  /** Aborts every open request, and each later one as soon as it begins. */
  stop (why: () => SvcError): void {
    if (this.#why !== undefined) return
    this.#why = why
    for (const one of [...this.#open]) one.abort(why())
  }

  enter (one: OpenRequest): void {
    this.#open.add(one)
    if (this.#why !== undefined) one.abort(this.#why())
  }

  leave (one: OpenRequest): void {
    this.#open.delete(one)
    if (this.#open.size === 0) this.#emptied?.()
  }

  /** To be called after `stop`: resolves when all requests have ended; abandons the rest after `graceMs`. */
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

export interface StreamCount { open (caller: Caller): () => void, readonly total: number }

/** Limits open streams per caller; one more than `limit` is refused with `overloaded`. */
export function createStreamCount (limit: number): StreamCount {
  const held = new Map<string, number>()
  return {
    open (caller) {
      const now = held.get(caller.id) ?? 0
      if (now >= limit) {
        throw kernelError('overloaded',
          `${now} streams are open for this credential; the limit is ${limit}.`,
          { retryAfterSeconds: 5 })
      }
      held.set(caller.id, now + 1)
      let released = false
      return () => {
        if (released) return
        released = true
        const left = held.get(caller.id)! - 1
        if (left > 0) held.set(caller.id, left)
        else held.delete(caller.id)
      }
    },
    get total () { return [...held.values()].reduce((a, b) => a + b, 0) }
  }
}
