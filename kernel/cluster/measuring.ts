import { createBandwidth, measure } from './bandwidth.js'
import type { Clock } from '../api/clock.js'
import type { MemberRequest, MemberResponse } from '../api/services.js'

/** A link is measured so long after it opened, up to twice that, ms. */
const FIRST_MS = 3000
/** And again after this, ms. */
const AGAIN_MS = 30 * 60_000

const asNode = { id: 'node', mode: 'direct', authorities: new Set(['operator']) } as const

export interface MeasuringOptions {
  self: string
  clock: Clock
  random: () => number
  request: (to: string, request: MemberRequest) => Promise<MemberResponse>
}

/** Knows what the links carry, by a few MiB without meaning now and then. */
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
      // The link is gone or the other end is busy. Nothing is known then, and the next time will tell.
    }
    if (due.has(installId)) later(installId, AGAIN_MS)
  }
  return {
    // One end is enough: what it learns stands under its own edges.
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
