import { place, samePosition } from '../log/entries.js'
import { PAGE_ENTRIES } from '../log/texts.js'
import type { Entry, Position } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Page } from '../log/texts.js'
import type { Input, Message, Outgoing, Output } from './messages.js'

/** Entries that come within so many ms after a message share the next message. */
const BATCH_MS = 10

/** Pause before a link that was full is tried again, ms. */
const FULL_MS = 20

/**
 * Most indices that a follower is sent beyond the newest it has acknowledged: half a second at 10,000 events
 * a second, and no more than fits into the follower's queue to its disk.
 */
const WINDOW_IDX = 5_000

/** A follower that has not acknowledged a full window for so long is sent where the log ends, ms. */
const STALL_MS = 3_000

/** How often a follower is sent the same page of the store, in case the message was lost. */
const SAME_ANSWERS = 3

type Want = Extract<Message, { type: 'want' }>

/** What the sender needs to know of its node. */
export interface Host {
  readonly log: EventLog
  readonly sid: string
  /** True on a master that gives indices. */
  readonly settled: boolean
  /** Highest index that this node has seen in any message. */
  readonly highest: number
  readonly now: number
  put (output: Output): void
}

/** How far the log was sent to one follower. */
interface Feed {
  sent: Position
  /** Newest index that the follower has acknowledged, and when. */
  taken: number
  takenAt: number
  /** Last position in the message that is being handed to its link; null when there is none. */
  handing: Position | null
  /** That message answers a `want`: the follower asks again when it is lost. */
  answer: boolean
  /** The next page is being read from the store. */
  finding: boolean
  /** Its link was full: nothing is sent before this time. */
  fullUntil: number
}

/**
 * The sending side of the replication. Answers `want` messages, and on the master sends each follower page
 * after page without being asked: while its link has room, and up to a window of unacknowledged entries.
 * Entries that are no longer in memory are read from the store.
 */
export class Feeding {
  readonly #host: Host
  readonly #feeds = new Map<string, Feed>()
  /**
   * Nodes for which the store is being searched. `answers`: the result answers a `want`, the newest of which
   * is kept here.
   */
  readonly #finding = new Map<string, { readonly answers: boolean, want: Want | null }>()
  /** For each node, where the last answer from the store ended, and how many in a row ended there. */
  readonly #answered = new Map<string, { readonly end: number, readonly times: number }>()
  /** Entries since the last flush: they are sent in one message. */
  #added = 0
  #flushedAt = -Infinity

  constructor (host: Host) { this.#host = host }

  /** Begins to send to a follower. It is taken to have the whole log; if not, it will ask. */
  begin (peer: string): void { this.#begin(peer, this.#host.log.last) }

  end (peer: string): void {
    this.#feeds.delete(peer)
    this.#answered.delete(peer)
    // A search that is under way was for the link that is gone: its result is not sent.
    if (this.#finding.has(peer)) this.#finding.set(peer, { answers: false, want: null })
  }

  clear (): void { this.#feeds.clear() }

  /** True when the follower was sent the whole log, or nothing is known of it. */
  ends (peer: string): boolean {
    const feed = this.#feeds.get(peer)
    return feed === undefined || samePosition(feed.sent, this.#host.log.last)
  }

  /** Forgets followers that have not acknowledged a full window for `STALL_MS`: messages were lost. */
  giveUpStalled (): string[] {
    const stalled = [...this.#feeds].filter(([, feed]) =>
      isFull(feed) && this.#host.now - feed.takenAt >= STALL_MS).map(([peer]) => peer)
    for (const peer of stalled) this.end(peer)
    return stalled
  }

  /** So many entries are new: they are sent now, or within `BATCH_MS` together with others. */
  added (count: number): void {
    const waiting = this.#added > 0
    this.#added += count
    if (this.#added === 0) return
    const ms = this.#added >= PAGE_ENTRIES ? 0 : Math.max(0, this.#flushedAt + BATCH_MS - this.#host.now)
    if (ms === 0) this.flush()
    else if (!waiting) this.#host.put({ type: 'wake', ms })
  }

  /** Sends each follower its next page. */
  flush (): void {
    if (this.#added > 0) this.#flushedAt = this.#host.now
    this.#added = 0
    for (const [peer, feed] of this.#feeds) this.#next(peer, feed)
  }

  /** A follower has acknowledged everything up to this index. */
  took (peer: string, idx: number): void {
    const feed = this.#feeds.get(peer)
    if (feed === undefined || idx <= feed.taken) return
    feed.taken = idx
    feed.takenAt = this.#host.now
    this.#next(peer, feed)
  }

  /** The link took the message that was handed to it (`ok`), or had no room. */
  fed ({ to, ok }: Extract<Input, { type: 'fed' }>): void {
    const feed = this.#feeds.get(to)
    if (feed === undefined || feed.handing === null) return
    const { handing, answer } = feed
    feed.handing = null
    feed.answer = false
    if (ok) {
      feed.sent = handing
      this.#next(to, feed)
    } else if (answer) {
      this.#feeds.delete(to)
      this.#answered.delete(to)
    } else {
      feed.fullUntil = this.#host.now + FULL_MS
      this.#host.put({ type: 'wake', ms: FULL_MS })
    }
  }

  /** Answers a `want` from memory, or after a search of the store. */
  asked (from: string, want: Want): void {
    if (!this.#mayAnswer(want)) return
    const { log } = this.#host
    const { have } = want
    let page: Page | null = null
    for (const position of have) if ((page = log.page(position)) !== null) break
    if (page === null && !have.some(({ idx }) => idx < log.oldest.idx)) page = log.page(log.oldest)
    if (page !== null) {
      this.#answer(from, want, page)
      return
    }
    // What it lacks is no longer in memory.
    const finding = this.#finding.get(from)
    if (finding === undefined) this.#find(from, want, have)
    else finding.want = want
  }

  found ({ to, base, entries }: Extract<Input, { type: 'found' }>): void {
    const finding = this.#finding.get(to)
    this.#finding.delete(to)
    if (finding === undefined) return
    const { log } = this.#host
    const { answers, want } = finding
    if (want === null) {
      if (!answers) this.#continue(to, base, entries)
    } else if (!answers) this.asked(to, want)
    else if (!this.#mayAnswer(want)) return
    else if (base !== null && this.#leadsOn(to, entries)) this.#answer(to, want, pageOf(base, entries))
    else this.#answer(to, want, log.page(log.oldest)!)
  }

  /**
   * False when the store's answer would not help. Behind a gap in the store the answer ends where the one
   * before did: after `SAME_ANSWERS` equal ones the node would ask for ever.
   */
  #leadsOn (peer: string, entries: readonly Entry[]): boolean {
    const end = entries.at(-1)?.idx
    const before = this.#answered.get(peer)
    const times = before?.end === end ? before!.times + 1 : 1
    this.#answered.set(peer, { end: end ?? 0, times })
    if (end !== undefined && times <= SAME_ANSWERS) return true
    this.#answered.delete(peer)
    return false
  }

  #begin (peer: string, sent: Position): Feed {
    const feed: Feed = { sent: place(sent), taken: sent.idx, takenAt: this.#host.now, handing: null,
      answer: false, finding: false, fullUntil: -Infinity }
    this.#feeds.set(peer, feed)
    return feed
  }

  /**
   * A new master (`learn`) may ask any node. A follower may ask only the master of its session, and only once
   * that gives indices.
   */
  #mayAnswer ({ sid, learn }: Want): boolean {
    return learn || (this.#host.settled && sid === this.#host.sid)
  }

  #find (to: string, want: Want | null, have: readonly Position[]): void {
    this.#finding.set(to, { answers: want !== null, want })
    this.#host.put({ type: 'find', to, have })
  }

  #answer (to: string, { sid, n, learn }: Want, { base, entries, end }: Page): void {
    const { log, highest } = this.#host
    const message: Outgoing = { type: 'page', sid, n, base, entries, last: place(log.last), above: highest }
    if (learn) return this.#host.put({ type: 'send', to, message })
    // From here on the follower is sent what comes next without asking.
    const feed = this.#begin(to, base)
    feed.handing = end
    feed.answer = true
    this.#host.put({ type: 'feed', to, message })
  }

  #next (peer: string, feed: Feed): void {
    const { log } = this.#host
    const busy = feed.handing !== null || feed.finding || this.#host.now < feed.fullUntil
    if (busy || isFull(feed) || feed.sent.idx >= log.last.idx) return
    const page = log.page(feed.sent)
    if (page !== null) {
      this.#append(peer, feed, page)
    } else if (!this.#finding.has(peer)) {
      feed.finding = true
      this.#find(peer, null, [feed.sent])
    }
  }

  /** Sends what the store has after the last position that this follower was sent. */
  #continue (peer: string, base: Position | null, entries: readonly Entry[]): void {
    const feed = this.#feeds.get(peer)
    if (feed?.finding !== true) return
    feed.finding = false
    if (base !== null && entries.length > 0 && samePosition(base, feed.sent)) {
      this.#append(peer, feed, pageOf(base, entries))
    } else {
      // The log may have been cut meanwhile. The follower learns where the log ends, and asks.
      this.#feeds.delete(peer)
      this.#host.put({ type: 'send', to: peer, message: headOf(this.#host) })
    }
  }

  #append (to: string, feed: Feed, { entries, end }: Page): void {
    const { log, sid } = this.#host
    feed.handing = end
    this.#host.put({ type: 'feed', to, message: { type: 'append', sid, entries, last: place(log.last) } })
  }
}

const isFull = ({ sent, taken }: Feed): boolean => sent.idx - taken >= WINDOW_IDX

/** A page out of entries of the store. */
function pageOf (base: Position, entries: readonly Entry[]): Page {
  return { base: place(base), entries: JSON.stringify(entries), end: place(entries.at(-1) ?? base) }
}

/** The message that says where the log ends. */
export function headOf ({ sid, log }: Pick<Host, 'sid' | 'log'>): Outgoing {
  return { type: 'head', sid, last: place(log.last) }
}
