import { samePosition, START } from './entries.js'
import { FETCH_MS, LEARN_MOST_MS, LEARN_MS, LEARN_NEXT_MS } from './limits.js'
import type { Entry, Position } from './entries.js'
import type { EventLog } from './log.js'
import type { Message } from './messages.js'

// What a node does with the pages of other nodes' logs: a follower with its master's, a new master with its
// peers', and a node that was away with those of whoever has what it missed.

type Page = Extract<Message, { type: 'page' }>

export interface Adopted {
  /** `whole`: the log is the master's; `more`: as far as the page went; `broken`: the page did not fit. */
  readonly state: 'whole' | 'more' | 'broken'
  /** What the log had and the master's has not, or elsewhere. */
  readonly removed: Entry[]
}

/** Makes the log equal to the master's as far as a page of that goes. */
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
 * No common position. A log that ends before the master's begins was away for too long: its entries are older
 * than what the master keeps. Any other one differs.
 */
function startBehind (log: EventLog, base: Position): Entry[] {
  const away = log.last.idx < base.idx
  const entries = log.restart(base)
  return away ? [] : entries
}

interface Question { n: number, last: Position }

/** A new master finds out what its peers hold beyond its own log. The lists returned: whom to ask (again). */
export interface Learning {
  add (peer: string): string[]
  remove (peer: string): string[]
  /** This peer was asked question `n` while the log ended in `last`. */
  asked (peer: string, n: number, last: Position): void
  /** Takes from an answer what continues the log. */
  page (from: string, page: Page, append: (entry: Entry) => boolean, now: number): string[]
  /** Nobody is left to be waited for, or the waiting was long enough. */
  done (now: number): boolean
}

export function createLearning (
  { log, peers, now: began }: { log: EventLog, peers: ReadonlySet<string>, now: number }
): Learning {
  /** The open question to each peer, and where this log ended when it was asked. */
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
      // More to come, or the log has grown by another peer's tail meanwhile. A tail that does not continue
      // this log stays out of it: its owner will submit those events again.
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

/** Whether the page follows the end of the log. One that ends before the peer's begins starts anew there. */
function continues (log: EventLog, { base }: Page): boolean {
  if (samePosition(log.last, base)) return true
  if (log.last.idx >= base.idx) return false
  log.restart(base)
  return true
}

/**
 * A follower was away for longer than its master goes back, and gets what is between from whoever has it.
 */
export interface Fetching {
  /** The log reaches up to what the master has. */
  readonly whole: boolean
  /** This node is asked question `n`. */
  asked (peer: string, n: number, now: number): void
  /** Takes from an answer what continues the log. False when nobody asked for it. */
  page (from: string, page: Page, append: (entry: Entry) => boolean): boolean
  /** Whom to ask now; `waiting` while an answer may still come. */
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
          // Only what leads to where the master's log begins: beyond that it is the master who knows.
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
