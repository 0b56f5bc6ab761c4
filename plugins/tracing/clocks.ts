import type { Channel, Clock, Cluster } from '../../kernel/index.js'

/** Between what another clock minus this one lies, milliseconds. */
export interface Bounds { lo: number, hi: number }

/** How far another clock is ahead of this one, and how far that may be wrong either way, milliseconds. */
export interface Offset { offsetMs: number, uncertaintyMs: number }

/** When something went to another process and came back, and when it was there by that process's clock. */
export interface Exchange { sentMs: number, thereFromMs: number, thereToMs: number, backMs: number }

/** What an exchange tells of the other clock: nothing arrives before it was sent. Pure. */
export function boundsOf ({ sentMs, thereFromMs, thereToMs, backMs }: Exchange): Bounds {
  const [a, b] = [thereToMs - backMs, thereFromMs - sentMs]
  // Clocks that run differently, or a process that tells nonsense, may turn them round.
  return { lo: Math.min(a, b), hi: Math.max(a, b) }
}

/** The middle of what both say; of the request's own bounds where they contradict each other. Pure. */
export function clockOffset (own: Bounds, known?: Bounds): Offset {
  const lo = Math.max(own.lo, known?.lo ?? own.lo)
  const hi = Math.min(own.hi, known?.hi ?? own.hi)
  const { lo: from, hi: to } = lo <= hi ? { lo, hi } : own
  return { offsetMs: (from + to) / 2, uncertaintyMs: (to - from) / 2 }
}

type Message = { ask: number } | { answer: number, at: number, nodeId: string }

interface Sample { nodeId: string, bounds: Bounds, takenMs: number }

export interface PeerClocksParts {
  clock: Clock
  cluster: Pick<Cluster, 'channel' | 'self'>
}

/** How many of the last measurements of a node are kept. */
const SAMPLES = 8
/** How fast two clocks may drift apart: 100 ppm. */
const DRIFT = 1e-4

/**
 * How far the monotonic clocks of other nodes are from this one's. It is measured by short messages on the
 * members' links, and each measurement loses worth with its age.
 */
export class PeerClocks {
  readonly #clock: Clock
  readonly #nodeId: string
  readonly #channel: Channel<Message>
  readonly #samples = new Map<string, Sample[]>()
  #askedMs = Number.NaN

  constructor ({ clock, cluster }: PeerClocksParts) {
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

  /** What is known of that start of a node; undefined when nothing is. */
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
      this.#keep(from, nodeId, at)
    }
  }

  #keep (from: string, nodeId: string, at: number): void {
    const takenMs = this.#clock.mono()
    const bounds = boundsOf({ sentMs: this.#askedMs, thereFromMs: at, thereToMs: at, backMs: takenMs })
    const known = this.#samples.get(from) ?? []
    this.#samples.set(from, [...known, { nodeId, bounds, takenMs }].slice(-SAMPLES))
  }
}
