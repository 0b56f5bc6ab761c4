import { boundsOf } from '../../kernel/index.js'
import type { Bounds, Channel, Clock, Cluster } from '../../kernel/index.js'

type Message = { ask: number } | { answer: number, at: number, nodeId: string }

interface Sample { nodeId: string, bounds: Bounds, takenMs: number }

/** Maximum number of measurements kept per node. */
const SAMPLES = 8
/** Assumed largest drift between two clocks: 100 ppm. */
const DRIFT = 1e-4

/**
 * Measures how far the monotonic clocks of other nodes are ahead of this one's, by short messages on the
 * members' links. The uncertainty of a measurement grows with its age.
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

  ask (): void {
    this.#askedMs = this.#clock.mono()
    this.#channel.broadcast({ ask: this.#askedMs })
  }

  /** The most certain measurement of a node's clock since its process started; undefined if none. */
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
