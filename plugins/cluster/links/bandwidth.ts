import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Clock, MemberRequest, MemberResponse } from '../../../kernel/cluster.js'

/** Minimum for a measurement; a smaller transfer measures the round trip rather than the bandwidth. */
const MIN_SAMPLE_BYTES = 1024 * 1024
/** Bytes of a probe: above MIN_SAMPLE_BYTES, and only 32 ms on 1 Gbit/s. */
export const PROBE_BYTES = 4 * 1024 * 1024
/** Maximum bytes of a probe response; a larger one is an error. */
const MAX_PROBE_BYTES = 8 * 1024 * 1024
const CHUNK_BYTES = 64 * 1024
/** Time limit of a measurement in ms; on a slow link, the bytes received until then count. */
const PROBE_LIMIT_MS = 5000
/** Minimum delay in ms from a link's opening to its first measurement; the maximum is twice as long. */
const FIRST_MS = 3000
const AGAIN_MS = 30 * 60_000

/** The body of `GET /cluster/probe`: random bytes, which cannot be compressed, generated on demand. */
export function probeBody (): Readable {
  let left = PROBE_BYTES
  return new Readable({
    highWaterMark: 2 * CHUNK_BYTES,
    read () {
      const size = Math.min(CHUNK_BYTES, left)
      left -= size
      this.push(size > 0 ? randomBytes(size) : null)
    }
  })
}

/**
 * Measures a probe's body from the first chunk to the last, not counting the first chunk's bytes: this
 * excludes the round trip and the server's delay. After `limitMs` the body is destroyed and the bytes
 * received so far are the result. Rejects if the body breaks off or exceeds 8 MiB.
 */
export async function measure (
  body: Readable, clock: Clock, limitMs = PROBE_LIMIT_MS
): Promise<{ bytes: number, ms: number }> {
  let timedOut = false
  const cancel = clock.after(limitMs, () => { timedOut = true; body.destroy() })
  const seen = { bytes: 0, startMs: null as number | null, lastMs: 0, first: 0 }
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      seen.lastMs = clock.mono()
      if (seen.startMs === null) {
        seen.startMs = seen.lastMs
        seen.first = chunk.byteLength
      } else {
        seen.bytes += chunk.byteLength
      }
      if (seen.bytes + seen.first > MAX_PROBE_BYTES) {
        throw new Error(`the probe's response exceeds ${MAX_PROBE_BYTES} bytes`)
      }
    }
  } catch (error) {
    if (!timedOut) throw error
  } finally { cancel() }
  return { bytes: seen.bytes, ms: seen.startMs === null ? 0 : seen.lastMs - seen.startMs }
}

/** Bytes per second; null if the transfer is too small or too short. */
export function rateOf ({ bytes, ms }: { bytes: number, ms: number }): number | null {
  return bytes >= MIN_SAMPLE_BYTES && ms > 0 ? Math.round(bytes / ms * 1000) : null
}

const asNode = { id: 'node', mode: 'direct', authorities: new Set(['operator']) } as const

export interface BandwidthOptions {
  self: string
  clock: Clock
  random: () => number
  request: (to: string, request: MemberRequest) => Promise<MemberResponse>
}

/** Measures each link every AGAIN_MS by fetching random bytes; the end with the smaller id measures. */
export class Bandwidth {
  readonly #options: BandwidthOptions
  /** Open links, each with the function that cancels its next measurement. */
  readonly #due = new Map<string, () => void>()
  readonly #measured = new Map<string, { rate: number | null, atMs: number }>()

  constructor (options: BandwidthOptions) { this.#options = options }

  up (installId: string): void {
    const { self, clock, random } = this.#options
    if (self > installId) return
    // An unstable link is not measured at each reconnect.
    const age = clock.mono() - (this.#measured.get(installId)?.atMs ?? -Infinity)
    this.#plan(installId, Math.max(FIRST_MS * (1 + random()), AGAIN_MS - age))
  }

  down (installId: string): void {
    this.#due.get(installId)?.()
    this.#due.delete(installId)
  }

  bytesPerSecond (installId: string): number | null { return this.#measured.get(installId)?.rate ?? null }

  close (): void { for (const installId of [...this.#due.keys()]) this.down(installId) }

  #plan (installId: string, ms: number): void {
    this.#due.get(installId)?.()
    this.#due.set(installId, this.#options.clock.after(ms, () => { void this.#measure(installId) }))
  }

  async #measure (installId: string): Promise<void> {
    const { request, clock } = this.#options
    try {
      const { body } = await request(installId, { method: 'GET', path: '/cluster/probe', caller: asNode })
      const rate = rateOf(await measure(body, clock)) ?? this.bytesPerSecond(installId)
      this.#measured.set(installId, { rate, atMs: clock.mono() })
    } catch {
      // The link closed or the other end is busy; the next scheduled measurement tries again.
    }
    if (this.#due.has(installId)) this.#plan(installId, AGAIN_MS)
  }
}
