import { samePosition, START } from './entries.js'
import { LEARN_MOST_MS, LEARN_MS, LEARN_NEXT_MS } from './limits.js'
import type { Entry, Position } from './entries.js'
import type { EventLog } from './log.js'
import type { Message } from './messages.js'

type Page = Extract<Message, { type: 'page' }>
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
