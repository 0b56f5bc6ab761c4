import { samePosition } from '../log/entries.js'
import type { Entry, Position } from '../log/entries.js'
import type { EventLog } from '../log/log.js'
import type { Of } from './messages.js'

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

/** Appends an entry; false when it does not continue the log. */
type Append = (entry: Entry) => boolean

export interface Adopted {
  /** `whole`: the log equals the master's; `more`: as far as the page goes; `broken`: it did not fit. */
  readonly state: 'whole' | 'more' | 'broken'
  /** Entries that the master's log does not have, or has elsewhere. */
  readonly removed: Entry[]
}

/** Makes the log of a follower equal to the master's as far as the page goes. */
export function adopt (log: EventLog, { base, entries, last }: Of<'page'>, append: Append): Adopted {
  const removed: Entry[] = []
  if (!log.holds(base)) {
    // A log that ends before the master's begins was away for too long: its entries are older than what the
    // master keeps, and stay on disk. Those of any other log go back.
    const away = log.last.idx < base.idx
    const before = log.restart(base)
    if (!away) removed.push(...before)
  }
  for (const entry of entries) {
    if (log.holds(entry)) continue
    removed.push(...log.cut(entry.prev))
    if (!append(entry)) return { state: 'broken', removed }
  }
  if (!samePosition(entries.at(-1) ?? base, last)) return { state: 'more', removed }
  if (log.last.idx > last.idx) removed.push(...log.cut(last.idx))
  return { state: 'whole', removed }
}

/** Appends those entries that continue the log, as far as `wanted` goes. True when there were some. */
function extend (
  log: EventLog, entries: readonly Entry[], append: Append, wanted: (entry: Entry) => boolean = () => true
): boolean {
  const { last } = log
  for (const entry of entries) {
    if (log.holds(entry)) continue
    if (!wanted(entry) || !append(entry)) break
  }
  return !samePosition(last, log.last)
}

/** How a new master fetches what peers have beyond its log. */
export class Learning {
  readonly #log: EventLog
  /** The open question to each peer, with the end of this log at that time. */
  readonly #waiting = new Map<string, { n: number, last: Position }>()
  readonly #began: number
  #progress: number
  #answered = false

  constructor (log: EventLog, now: number) {
    this.#log = log
    this.#began = now
    this.#progress = now
  }

  remove (peer: string): void { this.#waiting.delete(peer) }

  /** This peer was asked question `n`. */
  asked (peer: string, n: number): void { this.#waiting.set(peer, { n, last: this.#log.last }) }

  /**
   * Appends those entries of an answer that continue the log; a tail that does not is left out: the peer will
   * submit those events again. True when the peer has more and is to be asked again.
   */
  page (from: string, { n, base, entries, last }: Of<'page'>, append: Append, now: number): boolean {
    const log = this.#log
    const question = this.#waiting.get(from)
    if (question?.n !== n) return false
    // A log that ends before the peer's begins is begun again there.
    if (log.last.idx < base.idx) log.restart(base)
    if (extend(log, entries, append)) {
      this.#progress = now
      this.#answered = true
    }
    if (!samePosition(question.last, log.last) && !log.holds(last)) return true
    this.#waiting.delete(from)
    return false
  }

  /** True when all peers have answered, or the time is over. */
  done (now: number): boolean {
    const patience = this.#answered ? LEARN_NEXT_MS : LEARN_MS
    return this.#waiting.size === 0 || now - this.#progress >= patience || now - this.#began >= LEARN_MOST_MS
  }
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
  page (from: string, { n, entries }: Of<'page'>, append: Append): boolean {
    if (this.#open?.peer !== from || this.#open.n !== n) return false
    this.#open = null
    // Only up to where the master's log begins: from there on the master's word counts.
    const leads = (entry: Entry): boolean =>
      entry.idx < this.#target.idx || samePosition(entry, this.#target)
    if (extend(this.#log, entries, append, leads)) this.#untried.unshift(from)
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
