import { RunnerError } from './errors.js'

/** Weight of the newest task in the running mean of the service time. */
const NEWEST_SHARE = 0.3
const MAX_RETRY_SECONDS = 300

interface Waiter { admit: () => void, refuse: (error: RunnerError) => void }

/**
 * Lets at most `slots` tasks into a runner and keeps a bounded queue behind them, first come first served.
 * Each `enter` that resolves is answered by one `leave`.
 */
export class Admission {
  readonly #slots: number
  readonly #maxQueued: number
  readonly #waiting: Waiter[] = []
  #active = 0
  #meanMs: number | null = null

  constructor (slots: number, maxQueued: number) {
    this.#slots = slots
    this.#maxQueued = maxQueued
  }

  get active (): number { return this.#active }
  get queued (): number { return this.#waiting.length }

  /** Resolves when there is a place. Throws RunnerError `overloaded`, or `cancelled` on abort. */
  async enter (signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw cancelled()
    if (this.#active < this.#slots) {
      this.#active += 1
      return
    }
    if (this.#waiting.length >= this.#maxQueued) throw this.#overloaded()
    await this.#wait(signal)
  }

  /** Frees a place after a task that took `serviceMs`; null when it tells nothing about the service time. */
  leave (serviceMs: number | null): void {
    if (serviceMs !== null) {
      const mean = this.#meanMs ?? serviceMs
      this.#meanMs = mean + NEWEST_SHARE * (serviceMs - mean)
    }
    const next = this.#waiting.shift()
    if (next === undefined) this.#active -= 1
    else next.admit()
  }

  /** Refuses everything that waits. */
  refuseAll (error: RunnerError): void {
    for (const waiter of this.#waiting.splice(0)) waiter.refuse(error)
  }

  async #wait (signal: AbortSignal): Promise<void> {
    let onAbort = (): void => {}
    try {
      await new Promise<void>((resolve, reject) => {
        const waiter: Waiter = { admit: resolve, refuse: reject }
        onAbort = () => {
          const at = this.#waiting.indexOf(waiter)
          if (at === -1) return
          this.#waiting.splice(at, 1)
          reject(cancelled())
        }
        signal.addEventListener('abort', onAbort, { once: true })
        this.#waiting.push(waiter)
      })
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  #overloaded (): RunnerError {
    const retryAfterSeconds = retryAfter(this.#waiting.length, this.#slots, this.#meanMs)
    return new RunnerError('overloaded',
      `All ${this.#slots} places of the runner are taken and ${this.#waiting.length} tasks wait already.`,
      { active: this.#active, queued: this.#waiting.length, retryAfterSeconds })
  }
}

/** Seconds until a queue of that length has moved up by one place, at the measured service rate; 1 to 300. */
export function retryAfter (queued: number, slots: number, meanMs: number | null): number {
  const untilPlace = (meanMs ?? 0) / slots * Math.max(1, queued) / 1000
  return Math.min(MAX_RETRY_SECONDS, Math.max(1, Math.ceil(untilPlace)))
}

/** The terminal of a task whose reader has gone. */
export function cancelled (): RunnerError {
  return new RunnerError('cancelled', 'The task was cancelled.')
}
