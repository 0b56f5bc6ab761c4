import { kernelError } from '../api/errors.js'
import type { SvcError } from '../api/errors.js'
import type { Clock } from '../api/clock.js'

/** Interval of checks whether open credentials are still valid, ms. */
const LOOK_MS = 1000
/** Grace period for aborted requests, ms. */
export const LAST_WORDS_MS = 1000

interface Watched { readonly callerId: string, readonly end: (why: SvcError) => void }

/**
 * Ends streams and sockets whose credential was revoked, has expired or is no longer trusted. For requests
 * that entered here: a node that passed one on watches it.
 */
export class Standing {
  readonly #watched = new Set<Watched>()
  readonly #clock: Clock
  readonly #stands: (callerId: string) => boolean
  #stop: (() => void) | undefined

  constructor (clock: Clock, stands: (callerId: string) => boolean) {
    this.#clock = clock
    this.#stands = stands
  }

  /** Calls `end` once the credential of a caller has ended; what is returned ends the watch. */
  watch (callerId: string, end: (why: SvcError) => void): () => void {
    const one = { callerId, end }
    this.#watched.add(one)
    this.#stop ??= this.#clock.every(LOOK_MS, () => { this.#look() })
    return () => { this.#forget(one) }
  }

  get size (): number { return this.#watched.size }

  #look (): void {
    const known = new Map<string, boolean>()
    for (const one of [...this.#watched]) {
      const { callerId } = one
      if (!known.has(callerId)) known.set(callerId, this.#stands(callerId))
      if (known.get(callerId) === true) continue
      this.#forget(one)
      one.end(kernelError('unauthenticated', 'The credential of this request has ended.'))
    }
  }

  #forget (one: Watched): void {
    this.#watched.delete(one)
    if (this.#watched.size > 0) return
    this.#stop?.()
    this.#stop = undefined
  }
}
