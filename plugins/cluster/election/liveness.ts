import type { Heartbeat, Leader, NodeId } from './protocol.js'

interface Peer {
  connected: boolean
  heardAt: number
  /** The newest heartbeat received over the current connection, and when it arrived. */
  report: Heartbeat | null
  reportedAt: number
  /** `boot` and `count` of the newest heartbeat received over any connection. */
  boot: number
  count: number
}

/** Failure detector: a peer is lost when its connection closes, or after `silence` ms without a message. */
export class Liveness {
  readonly #peers = new Map<NodeId, Peer>()
  readonly #silence: number

  constructor (silence: number) { this.#silence = silence }

  up (id: NodeId, now: number): void {
    const { boot, count } = this.#peers.get(id) ?? { boot: 0, count: 0 }
    this.#peers.set(id, { connected: true, heardAt: now, report: null, reportedAt: now, boot, count })
  }

  down (id: NodeId): void {
    const peer = this.#peers.get(id)
    if (peer !== undefined) peer.connected = false
  }

  forget (id: NodeId): void { this.#peers.delete(id) }

  /** Records a message from a node; false if the node never connected. */
  recordContact (id: NodeId, now: number): boolean {
    const peer = this.#peers.get(id)
    if (peer !== undefined) peer.heardAt = now
    return peer !== undefined
  }

  /** Records a heartbeat; false if a newer one has already arrived. */
  report (id: NodeId, beat: Heartbeat): boolean {
    const peer = this.#peers.get(id)
    if (peer === undefined || (beat.boot - peer.boot || beat.count - peer.count) <= 0) return false
    peer.report = beat
    // `recordContact` has just set `heardAt` for the same message.
    peer.reportedAt = peer.heardAt
    peer.boot = beat.boot
    peer.count = beat.count
    return true
  }

  /**
   * Records from an ack that a node follows `leader`. Otherwise a new master would have no known followers
   * until their next heartbeats and would yield to any other master.
   */
  follows (id: NodeId, leader: Leader): void {
    const peer = this.#peers.get(id)
    if (peer?.report == null) return
    peer.report = { ...peer.report, leader }
    peer.reportedAt = peer.heardAt
  }

  latest (id: NodeId): Heartbeat | null { return this.#peers.get(id)?.report ?? null }

  /** The newest heartbeat if it arrived less than `silence` ms ago; other messages do not renew it. */
  recent (id: NodeId, now: number): Heartbeat | null {
    const peer = this.#peers.get(id)
    return peer !== undefined && now - peer.reportedAt < this.#silence ? peer.report : null
  }

  connected (id: NodeId): boolean { return this.#peers.get(id)?.connected === true }

  known (): NodeId[] { return [...this.#peers.keys()] }

  connections (): NodeId[] { return this.known().filter((id) => this.connected(id)) }

  alive (now: number): NodeId[] {
    const alive: NodeId[] = []
    for (const [id, { connected, heardAt }] of this.#peers) {
      if (connected && now - heardAt < this.#silence) alive.push(id)
    }
    return alive
  }

  /** Resets the peers' timers and drops their old heartbeats after a pause, when peers only seem silent. */
  resetTimers (now: number): void {
    for (const peer of this.#peers.values()) peer.heardAt = now
    this.forgetReports()
  }

  forgetReports (): void { for (const peer of this.#peers.values()) peer.report = null }
}
