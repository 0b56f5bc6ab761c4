import { WINDOW_MS } from './signing/protocol.js'
import type { Clock } from '../../kernel/index.js'

/** Maximum signed requests from one device within the window; beyond it, the device must use a bearer. */
export const MOST_NONCES = 4096
/** Maximum nonces of all devices together, about 20 MiB of memory. */
const MOST_IN_ALL = 262_144
/** Width in ms of the time buckets in which nonces are stored, and dropped together. */
const BUCKET_MS = 10_000

type Buckets = Map<number, Set<string>>

/**
 * The time against which signatures are checked. It follows the wall clock forwards; if the clock is set
 * back, it runs at half speed until the clock has caught up, because repeated times would allow replays.
 */
export function windowTime (clock: Pick<Clock, 'now' | 'mono'>): () => number {
  let last = { ms: clock.now(), mono: clock.mono() }
  return () => {
    const mono = clock.mono()
    last = { ms: Math.max(clock.now(), last.ms + (mono - last.mono) / 2), mono }
    return last.ms
  }
}

/** Remembers the nonces of signed requests by signed time, to detect replays; refuses above a limit. */
export class Nonces {
  readonly #byDevice = new Map<string, Buckets>()
  #size = 0
  /** Nonces before this time are gone, so earlier times are too old even if the clock is set back. */
  #forgottenMs = 0

  get size (): number { return this.#size }

  /** Whether a signed time is close enough to the node's and later than all nonces dropped so far. */
  inWindow (ts: number, nowMs: number): boolean {
    return Math.abs(ts - nowMs) <= WINDOW_MS && ts >= this.#forgottenMs
  }

  has (device: string, ts: number, nonce: string): boolean {
    return this.#byDevice.get(device)?.get(bucketOf(ts))?.has(nonce) === true
  }

  /** Stores a nonce; false if the store is full. */
  add (device: string, ts: number, nonce: string, nowMs: number): boolean {
    const buckets: Buckets = this.#byDevice.get(device) ?? new Map<number, Set<string>>()
    if (this.#isFull(buckets)) {
      this.forget(nowMs)
      if (this.#isFull(buckets)) return false
    }
    const bucket = buckets.get(bucketOf(ts)) ?? new Set<string>()
    bucket.add(nonce)
    buckets.set(bucketOf(ts), bucket)
    this.#byDevice.set(device, buckets)
    this.#size++
    return true
  }

  /** Drops buckets outside the window; called periodically, and when the store is full. */
  forget (nowMs: number): void {
    const oldest = bucketOf(nowMs - WINDOW_MS)
    this.#forgottenMs = Math.max(this.#forgottenMs, oldest * BUCKET_MS)
    for (const [device, buckets] of this.#byDevice) {
      for (const [at, bucket] of buckets) {
        if (at >= oldest) continue
        this.#size -= bucket.size
        buckets.delete(at)
      }
      if (buckets.size === 0) this.#byDevice.delete(device)
    }
  }

  #isFull (buckets: Buckets): boolean {
    let held = 0
    for (const bucket of buckets.values()) held += bucket.size
    return held >= MOST_NONCES || this.#size >= MOST_IN_ALL
  }
}

const bucketOf = (ts: number): number => Math.floor(ts / BUCKET_MS)
