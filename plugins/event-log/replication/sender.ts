import { positionOf } from '../log/entries.js'
import type { EventLog, Page } from '../log/log.js'
import type { Input, Of, ReplicationHost } from './messages.js'

/** Entries added within this many ms of an announcement share the next one. */
const BATCH_MS = 10

/** Interval in ms of announcements without new entries, in case a message was lost. */
const HEAD_MS = 5_000

export interface Host {
  readonly log: EventLog
  readonly world: ReplicationHost
  readonly peers: ReadonlySet<string>
  readonly sid: string
  readonly settled: boolean
  /** Highest index that this node has seen in any message. */
  readonly highest: number
  readonly now: number
}

/** Announces where the log ends, and answers `want` messages with pages from memory or from the store. */
export class LogSender {
  readonly #host: Host
  #announcedAt = -Infinity
  /** True while new entries wait to be announced. */
  #waiting = false

  constructor (host: Host) { this.#host = host }

  /** Sends these nodes the log's last position, so that a node that lacks entries requests them. */
  announce (peers: Iterable<string> = this.#host.peers): void {
    const { world, sid, log } = this.#host
    for (const peer of peers) world.send(peer, { type: 'head', sid, last: positionOf(log.last) })
  }

  /** Announces new entries immediately, or within `BATCH_MS` together with others. */
  added (): void {
    const ms = this.#announcedAt + BATCH_MS - this.#host.now
    if (ms > 0 && !this.#waiting) this.#host.world.wake(ms)
    this.#waiting = true
    if (ms <= 0) this.tick()
  }

  tick (): void {
    if (!this.#waiting && this.#host.now - this.#announcedAt < HEAD_MS) return
    this.#waiting = false
    this.#announcedAt = this.#host.now
    this.announce()
  }

  /** Answers a `want` from memory, or after a search of the store. */
  asked (from: string, want: Of<'want'>): void {
    if (!this.#mayAnswer(want)) return
    const { log, world } = this.#host
    for (const position of want.have) {
      const page = log.page(position)
      if (page !== null) return this.#answer(from, want, page)
    }
    if (want.have.some(({ idx }) => idx < log.oldest.idx)) world.find({ to: from, want })
    else this.#answer(from, want, log.page(log.oldest)!)
  }

  /** Handles the result of a search. */
  found ({ search: { to, want }, found: { base, entries } }: Extract<Input, { type: 'found' }>): void {
    const { log, peers } = this.#host
    if (!peers.has(to) || !this.#mayAnswer(want)) return
    // Without entries, the store has a gap here or the log was cut.
    const page = base === null || entries.length === 0
      ? log.page(log.oldest)!
      : { base: positionOf(base), entries: JSON.stringify(entries) }
    this.#answer(to, want, page)
  }

  /** Any node answers a new master (`learn`); only the settled master of a session answers its followers. */
  #mayAnswer ({ sid, learn }: Of<'want'>): boolean {
    return learn || (this.#host.settled && sid === this.#host.sid)
  }

  #answer (to: string, { sid, n }: Of<'want'>, { base, entries }: Page): void {
    const { log, highest, world } = this.#host
    world.send(to, { type: 'page', sid, n, base, entries, last: positionOf(log.last), above: highest })
  }
}
