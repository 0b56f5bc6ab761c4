import { positionOf, samePosition } from '../log/entries.js'
import { PAGE_ENTRIES } from '../log/log.js'
import type { Entry, Position } from '../log/entries.js'
import type { EventLog, Page } from '../log/log.js'
import type { Input, Of, Outgoing, ReplicationHost } from './messages.js'

/** Entries added within this many ms of a message share the next message. */
const BATCH_MS = 10

/** Pause in ms before retrying a full link. */
const FULL_MS = 20

/** Maximum unacknowledged indices per follower: half a second at 10,000 events/s; they fit its disk queue. */
const WINDOW_IDX = 5_000

/** A follower that leaves a full window unacknowledged for this many ms is sent the log's last position. */
const STALL_MS = 3_000

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

interface Feed {
  sent: Position
  /** Newest index that the follower has acknowledged, and its time. */
  taken: number
  takenAt: number
  /** True while a read of the next page from the store is pending. */
  finding: boolean
  /** Time at which to retry, because the link was full. */
  fullUntil: number
}

/**
 * Sends the log. Answers `want` messages; the master also sends each follower page after page, within the
 * capacity of its link and a window of unacknowledged entries. Reads entries that left memory from the store.
 */
export class LogSender {
  readonly #host: Host
  readonly #feeds = new Map<string, Feed>()
  /** New entries since the last flush, which sends them in one message. */
  #added = 0
  #flushedAt = -Infinity

  constructor (host: Host) { this.#host = host }

  /** Starts to send new entries to a follower; it requests any earlier entries that it lacks. */
  begin (peer: string): void { this.#begin(peer, this.#host.log.last, this.#host.log.last) }

  end (peer: string): void { this.#feeds.delete(peer) }

  clear (): void { this.#feeds.clear() }

  /** Sends these nodes the log's last position, so that a node that lacks entries requests them. */
  announce (peers: Iterable<string>): void {
    const { world, sid, log } = this.#host
    for (const peer of peers) world.send(peer, { type: 'head', sid, last: positionOf(log.last) })
  }

  /** Whether the whole log has been sent to the follower; true for an unknown follower. */
  ends (peer: string): boolean {
    const feed = this.#feeds.get(peer)
    return feed === undefined || samePosition(feed.sent, this.#host.log.last)
  }

  /** Drops followers that have not acknowledged a full window for `STALL_MS`, because messages were lost. */
  giveUpStalled (): void {
    for (const [peer, feed] of this.#feeds) {
      if (isFull(feed) && this.#host.now - feed.takenAt >= STALL_MS) this.#drop(peer)
    }
  }

  #drop (peer: string): void {
    this.#feeds.delete(peer)
    this.announce([peer])
  }

  /** Sends new entries immediately, or within `BATCH_MS` together with others. */
  added (count: number): void {
    const waiting = this.#added > 0
    this.#added += count
    if (this.#added === 0) return
    const ms = this.#added >= PAGE_ENTRIES ? 0 : Math.max(0, this.#flushedAt + BATCH_MS - this.#host.now)
    if (ms === 0) this.flush()
    else if (!waiting) this.#host.world.wake(ms)
  }

  flush (): void {
    if (this.#added > 0) this.#flushedAt = this.#host.now
    this.#added = 0
    for (const [peer, feed] of this.#feeds) this.#sendPages(peer, feed)
  }

  /** Handles a follower's acknowledgement of everything up to this index. */
  took (peer: string, idx: number): void {
    const feed = this.#feeds.get(peer)
    if (feed === undefined || idx <= feed.taken) return
    feed.taken = idx
    feed.takenAt = this.#host.now
    this.#sendPages(peer, feed)
  }

  /** Answers a `want` from memory, or after a search of the store. */
  asked (from: string, want: Of<'want'>): void {
    if (!this.#mayAnswer(want)) return
    const { log, world } = this.#host
    for (const position of want.have) {
      const page = log.page(position)
      if (page !== null) return this.#answer(from, want, page)
    }
    if (want.have.some(({ idx }) => idx < log.oldest.idx)) world.find({ to: from, have: want.have, want })
    else this.#answer(from, want, log.page(log.oldest)!)
  }

  /** Handles the result of a search: the answer to a `want`, or the next page for a follower. */
  found ({ search: { to, want }, found: { base, entries } }: Extract<Input, { type: 'found' }>): void {
    const { log, peers } = this.#host
    // Without entries, the store has a gap here or the log was cut.
    const page = base === null || entries.length === 0 ? null : pageOf(base, entries)
    if (want !== null) {
      if (peers.has(to) && this.#mayAnswer(want)) this.#answer(to, want, page ?? log.page(log.oldest)!)
      return
    }
    const feed = this.#feeds.get(to)
    if (feed?.finding !== true) return
    feed.finding = false
    if (page === null || !samePosition(page.base, feed.sent)) this.#drop(to)
    else if (this.#append(to, feed, page)) this.#sendPages(to, feed)
  }

  #begin (peer: string, { idx }: Position, sent: Position): Feed {
    const feed: Feed = { sent: positionOf(sent), taken: idx, takenAt: this.#host.now, finding: false,
      fullUntil: -Infinity }
    this.#feeds.set(peer, feed)
    return feed
  }

  /** Any node answers a new master (`learn`); only the settled master of a session answers its followers. */
  #mayAnswer ({ sid, learn }: Of<'want'>): boolean {
    return learn || (this.#host.settled && sid === this.#host.sid)
  }

  #answer (to: string, { sid, n, learn }: Of<'want'>, { base, entries, end }: Page): void {
    const { log, highest, world } = this.#host
    const message: Outgoing =
      { type: 'page', sid, n, base, entries, last: positionOf(log.last), above: highest }
    const ok = world.send(to, message)
    if (learn) return
    // From here on the follower gets more entries without asking; if the page is lost, it asks again.
    if (ok) this.#sendPages(to, this.#begin(to, base, end))
    else this.#feeds.delete(to)
  }

  #sendPages (peer: string, feed: Feed): void {
    const { log, now, world } = this.#host
    while (!feed.finding && now >= feed.fullUntil && !isFull(feed) && feed.sent.idx < log.last.idx) {
      const page = log.page(feed.sent)
      if (page === null) {
        feed.finding = true
        world.find({ to: peer, have: [feed.sent], want: null })
      } else if (!this.#append(peer, feed, page)) return
    }
  }

  /** Sends a page to a follower; false if the link is full. */
  #append (to: string, feed: Feed, { entries, end }: Page): boolean {
    const { log, sid, now, world } = this.#host
    const ok = world.send(to, { type: 'append', sid, entries, last: positionOf(log.last) })
    if (ok) feed.sent = end
    else {
      feed.fullUntil = now + FULL_MS
      world.wake(FULL_MS)
    }
    return ok
  }
}

const isFull = ({ sent, taken }: Feed): boolean => sent.idx - taken >= WINDOW_IDX

function pageOf (base: Position, entries: readonly Entry[]): Page {
  return { base: positionOf(base), entries: JSON.stringify(entries), end: positionOf(entries.at(-1) ?? base) }
}
