import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Clock, MemberRequest, MemberResponse } from '../../../kernel/cluster.js'

/** A smaller transfer says more about the round trip than about the link. */
const MIN_SAMPLE_BYTES = 1024 * 1024
/** Size of a probe: enough for a sample, 32 ms on 1 Gbit/s. */
export const PROBE_BYTES = 4 * 1024 * 1024
/** More than this is not read of a probe's answer. */
const MAX_PROBE_BYTES = 8 * 1024 * 1024
const CHUNK_BYTES = 64 * 1024
/** A slow link is measured for so long, ms. */
const PROBE_LIMIT_MS = 5000
/** Delay from a link's opening to its first measurement, up to twice this, ms. */
const FIRST_MS = 3000
/** Time between two measurements of a link, ms. */
const AGAIN_MS = 30 * 60_000

/** The body of `GET /cluster/probe`: bytes that nothing on the way can compress, made as they are taken. */
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
 * Times a probe's body from its first piece on, so that the round trip and the other end's thinking are not
 * in it; the first piece's bytes do not count either. A slow link is measured for `limitMs`, then the body is
 * destroyed and what came by then is the result. Rejects when the body breaks off, or is over 8 MiB.
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
        throw new Error(`the probe's answer is over ${MAX_PROBE_BYTES} bytes`)
      }
    }
  } catch (error) {
    if (!timedOut) throw error
  } finally {
    cancel()
  }
  return { bytes: seen.bytes, ms: seen.startMs === null ? 0 : seen.lastMs - seen.startMs }
}

/** Bytes per second of a transfer; null when it is too small, or too short, to tell. */
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

/**
 * Measures the bandwidth of each link now and then, by fetching a few MiB of random bytes. One end measures:
 * the one with the smaller install id.
 */
export class Bandwidth {
  readonly #options: BandwidthOptions
  /** Links that are up, each with what cancels its next measurement. */
  readonly #due = new Map<string, () => void>()
  readonly #measured = new Map<string, { rate: number | null, atMs: number }>()

  constructor (options: BandwidthOptions) { this.#options = options }

  up (installId: string): void {
    const { self, clock, random } = this.#options
    if (self > installId) return
    // A link that comes and goes is not measured each time.
    const age = clock.mono() - (this.#measured.get(installId)?.atMs ?? -Infinity)
    this.#plan(installId, Math.max(FIRST_MS * (1 + random()), AGAIN_MS - age))
  }

  down (installId: string): void {
    this.#due.get(installId)?.()
    this.#due.delete(installId)
  }

  /** Of the last measurement; null until there was one. */
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
      // The link is gone or the other end is busy: measured again next time.
    }
    if (this.#due.has(installId)) this.#plan(installId, AGAIN_MS)
  }
}
