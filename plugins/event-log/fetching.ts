import { samePosition } from './entries.js'
import { FETCH_MS } from './limits.js'
import type { Entry, Position } from './entries.js'
import type { EventLog } from './log.js'
import type { Message } from './messages.js'

type Page = Extract<Message, { type: 'page' }>

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
