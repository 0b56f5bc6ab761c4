import { samePosition, START } from '../log/entries.js'
import type { Entry, Position } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Message } from './messages.js'

// How a node takes over pages of other logs: a follower from its master, a new master from its peers, and a
// node that was away from any peer that has what it missed.

/** How long a new master waits for a silent peer before it gives out indices, ms. */
export const LEARN_MS = 500
/** How long a new master waits for the next page of a peer that has sent one, ms. */
const LEARN_NEXT_MS = 3_000
/** After this time a new master gives out indices even if peers are still sending, ms. */
const LEARN_MOST_MS = 60_000
/**
 * How long a node that was away waits for a page that its master no longer has, ms. The peer may have to
 * read it from its disk.
 */
const FETCH_MS = 5_000

type Page = Extract<Message, { type: 'page' }>

export interface Adopted {
  /** `whole`: the log equals the master's; `more`: as far as the page goes; `broken`: it did not fit. */
  readonly state: 'whole' | 'more' | 'broken'
  /** Entries that the master's log does not have, or has elsewhere. */
  readonly removed: Entry[]
}

/** Makes the log of a follower equal to the master's as far as the page goes. */
export function adopt (
  log: EventLog, { base, entries, last }: Page,
  append: (entry: Entry) => boolean
): Adopted {
  const removed = log.holds(base) ? [] : startBehind(log, base)
  for (const entry of entries) {
    if (log.holds(entry)) continue
    removed.push(...log.cut(entry.prev))
    if (!append(entry)) return { state: 'broken', removed }
  }
  if (!samePosition(entries.at(-1) ?? base, last)) return { state: 'more', removed }
  if (log.last.idx > last.idx) removed.push(...log.cut(last.idx))
  return { state: 'whole', removed }
}

/**
 * The logs share no position. A log that ends before the master's begins was away for too long: its entries
 * are older than what the master keeps, and stay on disk. Entries of any other log are returned.
 */
function startBehind (log: EventLog, base: Position): Entry[] {
  const away = log.last.idx < base.idx
  const entries = log.restart(base)
  return away ? [] : entries
}

/** How a new master fetches what peers have beyond its log. The lists returned: the peers to ask now. */
export class Learning {
  readonly #log: EventLog
  /** The open question to each peer, with the end of this log at that time. */
  readonly #waiting: Map<string, { n: number, last: Position } | null>
  readonly #began: number
  #progress: number
  #answered = false

  constructor (log: EventLog, peers: Iterable<string>, now: number) {
    this.#log = log
    this.#waiting = new Map([...peers].map((peer) => [peer, null]))
    this.#began = now
    this.#progress = now
  }

  add (peer: string): void { this.#waiting.set(peer, null) }

  remove (peer: string): void { this.#waiting.delete(peer) }

  /** This peer was asked question `n`. */
  asked (peer: string, n: number): void { this.#waiting.set(peer, { n, last: this.#log.last }) }

  /** Appends those entries of an answer that continue the log. True when the peer is to be asked again. */
  page (from: string, page: Page, append: (entry: Entry) => boolean, now: number): boolean {
    const log = this.#log
    const question = this.#waiting.get(from)
    if (question?.n !== page.n) return false
    const askedAt = question.last
    const stillThere = samePosition(askedAt, log.last)
    if (stillThere && continues(log, page)) {
      for (const entry of page.entries) {
        if (!append(entry)) break
        this.#progress = now
        this.#answered = true
      }
    }
    // The peer has more, or another peer's page came first: ask again. A tail that does not continue this
    // log is left out: the peer will submit those events again.
    const grown = !samePosition(askedAt, log.last)
    const fits = stillThere || samePosition(askedAt, page.base) || samePosition(askedAt, START)
    if (grown && fits && !log.holds(page.last)) return true
    this.#waiting.delete(from)
    return false
  }

  /** True when all peers have answered, or the time is over. */
  done (now: number): boolean {
    const patience = this.#answered ? LEARN_NEXT_MS : LEARN_MS
    return this.#waiting.size === 0 || now - this.#progress >= patience || now - this.#began >= LEARN_MOST_MS
  }
}

/** True when the page continues the log. A log that ends before the peer's begins is begun again there. */
function continues (log: EventLog, { base }: Page): boolean {
  if (samePosition(log.last, base)) return true
  if (log.last.idx >= base.idx) return false
  log.restart(base)
  return true
}

/**
 * How a follower that was away for longer than its master's log goes back fetches what it missed from other
 * peers, one at a time.
 */
export class Fetching {
  readonly #log: EventLog
  readonly #target: Position
  #untried: string[]
  #open: { peer: string, n: number, at: number } | null = null

  /** `target`: just before the oldest entry that the master has. */
  constructor (log: EventLog, target: Position, peers: readonly string[]) {
    this.#log = log
    this.#target = target
    this.#untried = [...peers]
  }

  /** True when the log reaches the beginning of the master's. */
  get whole (): boolean { return samePosition(this.#log.last, this.#target) }

  /** This node is asked question `n`. */
  asked (peer: string, n: number, now: number): void { this.#open = { peer, n, at: now } }

  /** Appends those entries of an answer that continue the log. False when nobody asked for it. */
  page (from: string, { n, base, entries }: Page, append: (entry: Entry) => boolean): boolean {
    if (this.#open?.peer !== from || this.#open.n !== n) return false
    this.#open = null
    const before = this.#log.last
    if (samePosition(base, before)) {
      for (const entry of entries) {
        // Only up to where the master's log begins: from there on the master's word counts.
        const leads = entry.idx < this.#target.idx || samePosition(entry, this.#target)
        if (!leads || !append(entry)) break
      }
    }
    if (this.#log.last.idx > before.idx) this.#untried.unshift(from)
    return true
  }

  /** The peer to ask now; `waiting` while an answer may still come; null when done or nobody is left. */
  next (now: number): string | null | 'waiting' {
    if (this.whole) return null
    if (this.#open !== null && now - this.#open.at < FETCH_MS) return 'waiting'
    this.#open = null
    return this.#untried.shift() ?? null
  }

  remove (peer: string): void {
    this.#untried = this.#untried.filter((one) => one !== peer)
    if (this.#open?.peer === peer) this.#open = null
  }
}
