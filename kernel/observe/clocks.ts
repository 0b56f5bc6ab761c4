import type { Clock } from '../api/clock.js'
import type { Channel, Cluster } from '../api/services.js'

/** The least and the most that another clock may be ahead of this one, milliseconds. */
export interface Bounds { lo: number, hi: number }

/** How far another clock is ahead of this one, and by how much that may be off either way, milliseconds. */
export interface ClockOffset { offsetMs: number, uncertaintyMs: number }

/**
 * A round trip, milliseconds: sent and back by this clock, arrived and left again by the other one. Without
 * `leftMs` it left when it arrived.
 */
export interface RoundTrip { sentMs: number, arrivedMs: number, leftMs?: number, backMs: number }

/** What a round trip says about the other clock, since nothing arrives before it was sent. Pure. */
export function boundsOf ({ sentMs, arrivedMs, leftMs = arrivedMs, backMs }: RoundTrip): Bounds {
  const [a, b] = [leftMs - backMs, arrivedMs - sentMs]
  // Clocks that run at different speeds, or a peer that sends nonsense, may swap the two.
  return { lo: Math.min(a, b), hi: Math.max(a, b) }
}

/** The middle of where two measurements overlap; where they do not, `own` alone counts. Pure. */
export function clockOffset (own: Bounds, known?: Bounds): ClockOffset {
  const lo = Math.max(own.lo, known?.lo ?? own.lo)
  const hi = Math.min(own.hi, known?.hi ?? own.hi)
  const { lo: from, hi: to } = lo <= hi ? { lo, hi } : own
  return { offsetMs: (from + to) / 2, uncertaintyMs: (to - from) / 2 }
}

type Message = { ask: number } | { answer: number, at: number, nodeId: string }

interface Sample { nodeId: string, bounds: Bounds, takenMs: number }

/** How many of the last measurements of a node are kept. */
const SAMPLES = 8
/** How fast two clocks may drift apart: 100 ppm. */
const DRIFT = 1e-4

/**
 * How far the monotonic clocks of other nodes are ahead of this one's, measured by short messages on the
 * members' links. A measurement becomes less certain with its age.
 */
export class PeerClocks {
  readonly #clock: Clock
  readonly #nodeId: string
  readonly #channel: Channel<Message>
  readonly #samples = new Map<string, Sample[]>()
  #askedMs = Number.NaN

  constructor ({ clock, cluster }: { clock: Clock, cluster: Pick<Cluster, 'channel' | 'self'> }) {
    this.#clock = clock
    this.#nodeId = cluster.self.nodeId
    this.#channel = cluster.channel<Message>('trace-clocks',
      (from, message) => { this.#receive(from, message) })
  }

  /** Asks every other node. */
  ask (): void {
    this.#askedMs = this.#clock.mono()
    this.#channel.broadcast({ ask: this.#askedMs })
  }

  /** The most certain measurement of that process start of a node; undefined without one. */
  bounds (installId: string, nodeId: string): Bounds | undefined {
    const now = this.#clock.mono()
    return this.#samples.get(installId)?.filter((sample) => sample.nodeId === nodeId)
      .map(({ bounds: { lo, hi }, takenMs }) => {
        const drift = (now - takenMs) * DRIFT
        return { lo: lo - drift, hi: hi + drift }
      })
      .reduce<Bounds | undefined>((best, next) =>
        best === undefined || next.hi - next.lo < best.hi - best.lo ? next : best, undefined)
  }

  close (): void { this.#channel.close() }

  #receive (from: string, message: Message): void {
    const { ask, answer, at, nodeId } = (message ?? {}) as Record<string, unknown>
    if (typeof ask === 'number') {
      this.#channel.send(from, { answer: ask, at: this.#clock.mono(), nodeId: this.#nodeId })
    } else if (answer === this.#askedMs && typeof at === 'number' && Number.isFinite(at) &&
      typeof nodeId === 'string') {
      const takenMs = this.#clock.mono()
      const bounds = boundsOf({ sentMs: this.#askedMs, arrivedMs: at, backMs: takenMs })
      const known = this.#samples.get(from) ?? []
      this.#samples.set(from, [...known, { nodeId, bounds, takenMs }].slice(-SAMPLES))
    }
  }
}
