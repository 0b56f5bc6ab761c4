import { Readable } from 'node:stream'
import type { Clock } from '../../api/clock.js'
import type { MemberRequest, MemberResponse } from '../../api/services.js'

/** A real transfer: bytes moved in `ms`, seen at `atMs` (monotonic). */
export interface TransferSample { bytes: number, ms: number, atMs: number }

export interface Estimate { bytesPerSecond: number, atMs: number }

/** A smaller transfer says more about the round trip than about the link. */
export const MIN_SAMPLE_BYTES = 1024 * 1024
/** Largest body of a probe. */
export const MAX_PROBE_BYTES = 8 * 1024 * 1024
/** A good size for a probe: enough for a sample, 32 ms on 1 Gbit/s. */
export const PROBE_BYTES = 4 * 1024 * 1024
/** After this time an old estimate counts half when a slower sample comes. */
const HALF_LIFE_MS = 60_000
const CHUNK_BYTES = 64 * 1024
const PROBE_LIMIT_MS = 5000

/**
 * The estimate after one more sample: a decaying maximum. A transfer is often slowed by its ends and never
 * faster than the link, so a faster sample is believed at once; a slower one only as far as the old estimate
 * has aged. Between samples an estimate stays as it is. Samples under 1 MiB, or without a duration, change
 * nothing. Pure.
 */
export function nextEstimate (
  previous: Estimate | null, sample: TransferSample, halfLifeMs = HALF_LIFE_MS
): Estimate | null {
  const { bytes, ms, atMs } = sample
  if (!(bytes >= MIN_SAMPLE_BYTES) || !(ms > 0) || !Number.isFinite(bytes / ms)) return previous
  const seen = bytes / ms * 1000
  const age = previous === null ? 0 : Math.max(0, atMs - previous.atMs)
  const aged = previous === null ? 0 : previous.bytesPerSecond * 2 ** (-age / halfLifeMs)
  return { bytesPerSecond: Math.max(seen, aged), atMs }
}

/** Estimates of the links of this node, by the install id of the other end. */
export interface Bandwidth {
  /** A transfer to or from that node. */
  sample (installId: string, transfer: { bytes: number, ms: number }): void
  /** Null until a transfer of at least 1 MiB was seen. */
  bytesPerSecond (installId: string): number | null
  forget (installId: string): void
}

export function createBandwidth (clock: Clock): Bandwidth {
  const links = new Map<string, Estimate>()
  return {
    sample (installId, transfer) {
      const next = nextEstimate(links.get(installId) ?? null, { ...transfer, atMs: clock.mono() })
      if (next !== null) links.set(installId, next)
    },
    bytesPerSecond (installId) {
      const bytesPerSecond = links.get(installId)?.bytesPerSecond
      return bytesPerSecond === undefined ? null : Math.round(bytesPerSecond)
    },
    forget (installId) { links.delete(installId) }
  }
}

/**
 * The body of `GET /cluster/probe?bytes=`: that many bytes which nothing on the way can compress, made as
 * fast as they are taken. `random` gives that many bytes, e.g. node:crypto's `randomBytes`. Throws RangeError
 * unless `bytes` is an integer of 1 to 8 MiB.
 */
export function probeBody (bytes: number, random: (size: number) => Uint8Array): Readable {
  if (!Number.isInteger(bytes) || bytes < 1 || bytes > MAX_PROBE_BYTES) {
    throw new RangeError(`bytes: ${bytes} is not an integer of 1 to ${MAX_PROBE_BYTES}`)
  }
  let left = bytes
  return new Readable({
    highWaterMark: 2 * CHUNK_BYTES,
    read () {
      const size = Math.min(CHUNK_BYTES, left)
      left -= size
      this.push(size > 0 ? random(size) : null)
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

/** Delay from a link's opening to its first measurement, up to twice this, ms. */
const FIRST_MS = 3000
/** Time between two measurements of a link, ms. */
const AGAIN_MS = 30 * 60_000

const asNode = { id: 'node', mode: 'direct', authorities: new Set(['operator']) } as const

export interface MeasuringOptions {
  self: string
  clock: Clock
  random: () => number
  request: (to: string, request: MemberRequest) => Promise<MemberResponse>
}

/** Measures the bandwidth of each link now and then, by fetching a few MiB of random bytes. */
export interface Measuring {
  up (installId: string): void
  down (installId: string): void
  /** Null until it was measured. */
  bytesPerSecond (installId: string): number | null
  close (): void
}

export function createMeasuring (options: MeasuringOptions): Measuring {
  const { self, clock, random, request } = options
  const bandwidth = createBandwidth(clock)
  const due = new Map<string, () => void>()
  const measuredAt = new Map<string, number>()
  const later = (installId: string, ms: number): void => {
    due.get(installId)?.()
    due.set(installId, clock.after(ms, () => { void once(installId) }))
  }
  const once = async (installId: string): Promise<void> => {
    try {
      const { body } = await request(installId, { method: 'GET', path: '/cluster/probe', caller: asNode })
      bandwidth.sample(installId, await measure(body, clock))
      measuredAt.set(installId, clock.mono())
    } catch {
      // The link is gone or the other end is busy: measured again next time.
    }
    if (due.has(installId)) later(installId, AGAIN_MS)
  }
  return {
    // One end measures: the one with the smaller install id.
    up (installId) {
      if (self > installId) return
      // A link that comes and goes is not measured each time.
      const age = clock.mono() - (measuredAt.get(installId) ?? -Infinity)
      later(installId, Math.max(FIRST_MS * (1 + random()), AGAIN_MS - age))
    },
    down (installId) {
      due.get(installId)?.()
      due.delete(installId)
    },
    bytesPerSecond: (installId) => bandwidth.bytesPerSecond(installId),
    close () {
      for (const cancel of due.values()) cancel()
      due.clear()
    }
  }
}
