import { WINDOW_MS } from './signing/protocol.js'
import type { Clock } from '../../kernel/index.js'

/** Signed requests of one device within the window; a device with more of them takes a bearer. */
export const MOST_NONCES = 4096
/** Of all devices together: bounds the memory, about 20 MiB. */
const MOST_IN_ALL = 262_144
/** Nonces are forgotten together, by the time they carry, ms. */
const BUCKET_MS = 10_000

type Buckets = Map<number, Set<string>>

/**
 * Time for signatures: follows the wall clock forwards. After it was set back this runs at half its speed
 * until both agree, since repeated times would let replays in.
 */
export function windowTime (clock: Pick<Clock, 'now' | 'mono'>): () => number {
  let last = { ms: clock.now(), mono: clock.mono() }
  return () => {
    const mono = clock.mono()
    last = { ms: Math.max(clock.now(), last.ms + (mono - last.mono) / 2), mono }
    return last.ms
  }
}

/**
 * Nonces within the window, never one less: a device that sends more than fit is refused. Stored by signed
 * time, so that a replay check searches one place.
 */
export class Nonces {
  readonly #byDevice = new Map<string, Buckets>()
  #size = 0
  /** What carries an earlier time than this was forgotten, and is too old whatever the clock says now. */
  #forgottenMs = 0

  get size (): number { return this.#size }

  /** Whether a time is within the window of a clock, and not so old that its nonces were forgotten. */
  inWindow (ts: number, nowMs: number): boolean {
    return Math.abs(ts - nowMs) <= WINDOW_MS && ts >= this.#forgottenMs
  }

  has (device: string, ts: number, nonce: string): boolean {
    return this.#byDevice.get(device)?.get(bucketOf(ts))?.has(nonce) === true
  }

  /** Remembers a nonce; false when there is no room for it. */
  add (device: string, ts: number, nonce: string, nowMs: number): boolean {
    const buckets: Buckets = this.#byDevice.get(device) ?? new Map<number, Set<string>>()
    if (this.#isFull(buckets)) {
      this.#forget(nowMs)
      if (this.#isFull(buckets)) return false
    }
    const bucket = buckets.get(bucketOf(ts)) ?? new Set<string>()
    bucket.add(nonce)
    buckets.set(bucketOf(ts), bucket)
    this.#byDevice.set(device, buckets)
    this.#size++
    return true
  }

  /** Drops what has left the window; from time to time, and when there is no room. */
  #forget (nowMs: number): void {
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

  forget (nowMs: number): void { this.#forget(nowMs) }

  #isFull (buckets: Buckets): boolean {
    let held = 0
    for (const bucket of buckets.values()) held += bucket.size
    return held >= MOST_NONCES || this.#size >= MOST_IN_ALL
  }
}

const bucketOf = (ts: number): number => Math.floor(ts / BUCKET_MS)
