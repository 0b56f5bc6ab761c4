import { kernelError, type Clock } from '../../kernel/index.js'

/**
 * Releases a slot; repeated calls have no effect. `measured: false` excludes the call from the mean duration.
 */
export type Release = (measured?: boolean) => void

interface Waiter {
  signal: AbortSignal
  slots: number
  resolve: (release: Release) => void
  reject: (error: unknown) => void
}

const MAX_RETRY_SECONDS = 60
/** Weight of the newest call in the running mean of the slot time. */
const NEWEST = 0.2

/**
 * Seconds until a new call would get a slot: the calls ahead of it run `concurrency` at a time for `meanMs`
 * each (null before the first call ends). Clamped to 1 to 60.
 */
export function retryAfterSeconds (ahead: number, concurrency: number, meanMs: number | null): number {
  const estimate = Math.ceil(ahead * (meanMs ?? 0) / concurrency / 1000)
  return Math.min(MAX_RETRY_SECONDS, Math.max(1, estimate))
}

/** The caller with the fewest running calls; on a tie, the first in `waiting`. Pure. */
export function nextCaller (
  waiting: Iterable<string>, running: ReadonlyMap<string, number>
): string | undefined {
  let best: string | undefined
  for (const caller of waiting) {
    if (best === undefined || (running.get(caller) ?? 0) < (running.get(best) ?? 0)) best = caller
  }
  return best
}

/**
 * Chooses the caller whose newest waiting call makes room for `newcomer` in a full queue: the one with the
 * most waiting calls, if it has at least two more than the newcomer. Pure.
 */
export function callerToDisplace (
  lanes: ReadonlyMap<string, { length: number }>, newcomer: string
): string | undefined {
  let longest: string | undefined
  for (const [caller, lane] of lanes) {
    if (longest === undefined || lane.length > lanes.get(longest)!.length) longest = caller
  }
  const own = lanes.get(newcomer)?.length ?? 0
  if (longest === undefined || longest === newcomer) return undefined
  return lanes.get(longest)!.length >= own + 2 ? longest : undefined
}

/** Bounded concurrency with a bounded queue, fair between callers. */
export class Admission {
  readonly #name: string
  readonly #clock: Clock
  readonly #concurrency: number
  readonly #queue: number
  readonly #running = new Map<string, number>()
  /** Waiting calls by caller; the order of the callers decides ties. */
  readonly #lanes = new Map<string, Waiter[]>()
  #active = 0
  #waiting = 0
  #meanMs: number | null = null
  /** Sum of the start times of the running calls, one for each slot, monotonic ms. */
  #startSum = 0

  constructor (name: string, clock: Clock, limits: { concurrency: number, queue: number }) {
    this.#name = name
    this.#clock = clock
    this.#concurrency = limits.concurrency
    this.#queue = limits.queue
  }

  get active (): number { return this.#active }
  get waiting (): number { return this.#waiting }

  /** Place in the queue from 1; 0 if the call does not wait. */
  placeOf (signal: AbortSignal): number {
    const lanes = [...this.#lanes.values()]
    const own = lanes.findIndex((lane) => lane.some((waiter) => waiter.signal === signal))
    if (own < 0) return 0
    const at = lanes[own]!.findIndex((waiter) => waiter.signal === signal)
    return lanes.reduce((ahead, { length }, i) => ahead + Math.min(length, i < own ? at + 1 : at), 1)
  }

  /**
   * Resolves to a function that releases the slots. Throws `overloaded` (with Retry-After) if the queue is
   * full, and the signal's reason if it aborts; an aborted call leaves the queue.
   */
  async enter (caller: string, signal: AbortSignal, takes = 1): Promise<Release> {
    signal.throwIfAborted()
    const slots = Math.min(takes, this.#concurrency)
    if (slots === 0 || (this.#waiting === 0 && this.#fits(slots))) return this.#take(caller, slots)
    if (this.#waiting >= this.#queue) this.#makeRoom(caller)
    return await new Promise((resolve, reject) => {
      const waiter: Waiter = {
        signal, slots,
        resolve: (release) => { signal.removeEventListener('abort', leave); resolve(release) },
        reject: (error) => { signal.removeEventListener('abort', leave); reject(error) }
      }
      const leave = (): void => {
        this.#drop(caller, waiter)
        waiter.reject(signal.reason)
        this.#admit()
      }
      signal.addEventListener('abort', leave)
      const lane = this.#lanes.get(caller)
      if (lane === undefined) this.#lanes.set(caller, [waiter])
      else lane.push(waiter)
      this.#waiting++
    })
  }

  refuseAll (error: Error): void {
    const waiting = [...this.#lanes.values()].flat()
    this.#lanes.clear()
    this.#waiting = 0
    for (const waiter of waiting) waiter.reject(error)
  }

  #fits (slots: number): boolean { return this.#active + slots <= this.#concurrency }

  #take (caller: string, slots: number): Release {
    const since = this.#clock.mono()
    this.#active += slots
    this.#startSum += since * slots
    this.#running.set(caller, (this.#running.get(caller) ?? 0) + slots)
    let held = true
    return (measured = true) => {
      if (!held) return
      held = false
      this.#startSum -= since * slots
      this.#give(caller, slots, measured ? this.#clock.mono() - since : null)
    }
  }

  #give (caller: string, slots: number, heldMs: number | null): void {
    this.#active -= slots
    const left = (this.#running.get(caller) ?? 0) - slots
    if (left > 0) this.#running.set(caller, left)
    else this.#running.delete(caller)
    if (heldMs !== null) {
      this.#meanMs = this.#meanMs === null ? heldMs : this.#meanMs + NEWEST * (heldMs - this.#meanMs)
    }
    this.#admit()
  }

  #admit (): void {
    for (;;) {
      const next = nextCaller(this.#lanes.keys(), this.#running)
      if (next === undefined) return
      const lane = this.#lanes.get(next)!
      const waiter = lane[0]!
      if (!this.#fits(waiter.slots)) return
      this.#drop(next, waiter)
      if (lane.length > 0) {
        this.#lanes.delete(next)
        this.#lanes.set(next, lane)
      }
      waiter.resolve(this.#take(next, waiter.slots))
    }
  }

  #drop (caller: string, waiter: Waiter): void {
    const lane = this.#lanes.get(caller)
    const at = lane?.indexOf(waiter) ?? -1
    if (lane === undefined || at < 0) return
    lane.splice(at, 1)
    this.#waiting--
    if (lane.length === 0) this.#lanes.delete(caller)
  }

  /** Displaces another caller's newest call, or throws `overloaded`. */
  #makeRoom (caller: string): void {
    const victim = callerToDisplace(this.#lanes, caller)
    if (victim === undefined) throw this.#overloaded()
    const waiter = this.#lanes.get(victim)!.at(-1)!
    this.#drop(victim, waiter)
    waiter.reject(this.#overloaded())
  }

  #overloaded (): Error {
    const ahead = this.#active + this.#waiting + 1 - this.#concurrency
    // Calls that already run longer than the mean, such as long streams, will take about as long again.
    const ageMs = this.#clock.mono() - this.#startSum / Math.max(1, this.#active)
    const seconds = retryAfterSeconds(ahead, this.#concurrency, Math.max(this.#meanMs ?? 0, ageMs))
    return kernelError('overloaded',
      `${this.#name} has ${this.#active} calls running and ${this.#waiting} waiting; ` +
      `try again in ${seconds} s.`,
      { running: this.#active, waiting: this.#waiting, retryAfterSeconds: seconds })
  }
}
