import { kernelError, type SvcError } from '../api/errors.js'
import type { Clock } from '../api/clock.js'

/** Milliseconds between checks of the credentials in use. */
const CHECK_MS = 1000
/** Milliseconds that aborted requests are given to finish. */
export const LAST_WORDS_MS = 1000

type End = (why: SvcError) => void

/**
 * Ends streams and sockets whose credential was revoked, has expired or is no longer trusted. The node that
 * received a request from the client does this, not a node to which it forwards the request.
 */
export class CredentialWatch {
  /** Caller ids of watched requests, by the function that ends the request. */
  readonly #watched = new Map<End, string>()
  readonly #clock: Clock
  readonly #isValid: (callerId: string) => boolean
  #stop: (() => void) | undefined

  constructor (clock: Clock, isValid: (callerId: string) => boolean) {
    this.#clock = clock
    this.#isValid = isValid
  }

  /**
   * Calls `end` once the credential is invalid; each request needs its own `end`. Returns a function that
   * stops the watch.
   */
  watch (callerId: string, end: End): () => void {
    this.#watched.set(end, callerId)
    this.#stop ??= this.#clock.every(CHECK_MS, () => { this.#check() })
    return () => { this.#forget(end) }
  }

  #check (): void {
    const valid = new Map([...new Set(this.#watched.values())].map((id) => [id, this.#isValid(id)]))
    for (const [end, callerId] of [...this.#watched]) {
      if (valid.get(callerId) === true) continue
      this.#forget(end)
      end(kernelError('unauthenticated', 'The credential of this request has expired or was revoked.'))
    }
  }

  #forget (end: End): void {
    this.#watched.delete(end)
    if (this.#watched.size > 0) return
    this.#stop?.()
    this.#stop = undefined
  }
}
