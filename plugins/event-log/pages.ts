import { samePosition, START } from './entries.js'
import { FETCH_MS, LEARN_MOST_MS, LEARN_MS, LEARN_NEXT_MS } from './limits.js'
import type { Entry, Position } from './entries.js'
import type { EventLog } from './log.js'
import type { Message } from './messages.js'

// How a node takes over pages of other logs: a follower from its master, a new master from its peers, and a
// node that was away from any peer that has what it missed.

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

interface Question { n: number, last: Position }

/** How a new master fetches what peers have beyond its log. The lists returned: the peers to ask now. */
export interface Learning {
  add (peer: string): string[]
  remove (peer: string): string[]
  /** This peer was asked question `n` while the log ended in `last`. */
  asked (peer: string, n: number, last: Position): void
  /** Appends those entries of an answer that continue the log. */
  page (from: string, page: Page, append: (entry: Entry) => boolean, now: number): string[]
  /** True when all peers have answered, or the time is over. */
  done (now: number): boolean
}

export function createLearning (
  { log, peers, now: began }: { log: EventLog, peers: ReadonlySet<string>, now: number }
): Learning {
  /** The open question to each peer, with the end of this log at that time. */
  const waiting = new Map<string, Question | null>([...peers].map((peer) => [peer, null]))
  let progress = began
  let answered = false
  return {
    add (peer) {
      waiting.set(peer, null)
      return [peer]
    },
    remove (peer) {
      waiting.delete(peer)
      return []
    },
    asked (peer, n, last) { waiting.set(peer, { n, last }) },
    page (from, page, append, now) {
      const question = waiting.get(from)
      if (question?.n !== page.n) return []
      const askedAt = question.last
      const stillThere = samePosition(askedAt, log.last)
      if (stillThere && continues(log, page)) {
        for (const entry of page.entries) {
          if (!append(entry)) break
          progress = now
          answered = true
        }
      }
      // The peer has more, or another peer's page came first: ask again. A tail that does not continue this
      // log is left out: the peer will submit those events again.
      const grown = !samePosition(askedAt, log.last)
      const fits = stillThere || samePosition(askedAt, page.base) || samePosition(askedAt, START)
      if (grown && fits && !log.holds(page.last)) return [from]
      waiting.delete(from)
      return []
    },
    done (now) {
      const patience = answered ? LEARN_NEXT_MS : LEARN_MS
      return waiting.size === 0 || now - progress >= patience || now - began >= LEARN_MOST_MS
    }
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
export interface Fetching {
  /** True when the log reaches the beginning of the master's. */
  readonly whole: boolean
  /** This node is asked question `n`. */
  asked (peer: string, n: number, now: number): void
  /** Appends those entries of an answer that continue the log. False when nobody asked for it. */
  page (from: string, page: Page, append: (entry: Entry) => boolean): boolean
  /** The peer to ask now; `waiting` while an answer may still come; null when done or nobody is left. */
  next (now: number): string | null | 'waiting'
  remove (peer: string): void
}

/** `target`: just before the oldest entry that the master has. */
export function createFetching (log: EventLog, target: Position, peers: readonly string[]): Fetching {
  let untried = [...peers]
  let open: { peer: string, n: number, at: number } | null = null
  const isWhole = (): boolean => samePosition(log.last, target)
  return {
    get whole () { return isWhole() },
    asked (peer, n, now) { open = { peer, n, at: now } },
    page (from, { n, base, entries }, append) {
      if (open?.peer !== from || open.n !== n) return false
      open = null
      const before = log.last.idx
      if (samePosition(base, log.last)) {
        for (const entry of entries) {
          // Only up to where the master's log begins: from there on the master's word counts.
          const leads = entry.idx < target.idx || samePosition(entry, target)
          if (!leads || !append(entry)) break
        }
      }
      if (log.last.idx > before) untried.unshift(from)
      return true
    },
    next (now) {
      if (isWhole()) return null
      if (open !== null && now - open.at < FETCH_MS) return 'waiting'
      open = null
      return untried.shift() ?? null
    },
    remove (peer) {
      untried = untried.filter((one) => one !== peer)
      if (open?.peer === peer) open = null
    }
  }
}
