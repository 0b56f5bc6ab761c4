import { place, samePosition } from './entries.js'
import { BATCH_MS, FULL_MS, PAGE_ENTRIES, SAME_ANSWERS, STALL_MS, WINDOW_IDX } from './limits.js'
import type { Entry, Position } from './entries.js'
import type { EventLog } from './log.js'
import type { Message, Outgoing } from './messages.js'
import type { Input, Output } from './steps.js'
import type { Page } from './texts.js'

type Want = Extract<Message, { type: 'want' }>

/** The node whose log this is. */
export interface Host {
  readonly log: EventLog
  readonly sid: () => string
  /** It is the master and gives indices. */
  readonly settled: () => boolean
  /** Highest index that anybody has named. */
  readonly highest: () => number
  readonly now: () => number
  readonly out: (output: Output) => void
}

/** How far a follower was sent the log. */
interface Feed {
  sent: Position
  /** It has said that it has the log up to this index, and when it last said so. */
  taken: number
  takenAt: number
  /** Where the message ends that is being handed to its link; null when there is none. */
  handing: Position | null
  /** That message answers a question: the follower asks again when it is lost. */
  answer: boolean
  /** The next page is being looked for in the store. */
  finding: boolean
  /** Its link was full: it is not tried again before. */
  fullUntil: number
}

/**
 * Answers what others ask for, and sends each follower of a master what it lacks, page after page, without
 * being asked for each: as far as its link takes them, and no further ahead than a window of what it has said
 * to have. What memory no longer has is looked for in the store.
 */
export class Feeding {
  readonly #host: Host
  readonly #feeds = new Map<string, Feed>()
  /**
   * For whom the store is being searched. `answers`: what is found answers a question. `want`: the newest one
   * that has to be answered.
   */
  readonly #finding = new Map<string, { readonly answers: boolean, want: Want | null }>()
  /** Where the newest answers from the store ended, and how many in a row ended there. */
  readonly #answered = new Map<string, { readonly end: number, readonly times: number }>()
  /** Entries since the last flush, which share a message. */
  #added = 0
  #flushedAt = -Infinity

  constructor (host: Host) { this.#host = host }

  /** This follower is believed to have the log as it is now: it asks if not. */
  begin (peer: string): void { this.#begin(peer, this.#host.log.last) }

  end (peer: string): void {
    this.#feeds.delete(peer)
    this.#answered.delete(peer)
    // What is found now is for one that was there before.
    if (this.#finding.has(peer)) this.#finding.set(peer, { answers: false, want: null })
  }

  clear (): void { this.#feeds.clear() }

  /** True for one that was sent all there is, or of which nothing is known. */
  ends (peer: string): boolean {
    const feed = this.#feeds.get(peer)
    return feed === undefined || samePosition(feed.sent, this.#host.log.last)
  }

  /** Gives up those that have not said for long that they have what they were sent: it was lost. */
  giveUpStalled (): string[] {
    const stalled = [...this.#feeds].filter(([, feed]) =>
      isFull(feed) && this.#host.now() - feed.takenAt >= STALL_MS).map(([peer]) => peer)
    for (const peer of stalled) this.end(peer)
    return stalled
  }

  /** So many entries are new: they leave at once, or soon with others. */
  added (count: number): void {
    const waiting = this.#added > 0
    this.#added += count
    if (this.#added === 0) return
    const ms = this.#added >= PAGE_ENTRIES ? 0 : Math.max(0, this.#flushedAt + BATCH_MS - this.#host.now())
    if (ms === 0) this.flush()
    else if (!waiting) this.#host.out({ type: 'wake', ms })
  }

  /** Sends each follower what there is for it. */
  flush (): void {
    if (this.#added > 0) this.#flushedAt = this.#host.now()
    this.#added = 0
    for (const [peer, feed] of this.#feeds) this.#next(peer, feed)
  }

  /** A follower has the log up to there. */
  took (peer: string, idx: number): void {
    const feed = this.#feeds.get(peer)
    if (feed === undefined || idx <= feed.taken) return
    feed.taken = idx
    feed.takenAt = this.#host.now()
    this.#next(peer, feed)
  }

  /** The message that was handed over is on its way, or found no room on the link. */
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
      feed.fullUntil = this.#host.now() + FULL_MS
      this.#host.out({ type: 'wake', ms: FULL_MS })
    }
  }

  /** Answers a question now, or when the store has been searched. */
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
    // It was away for longer than memory goes back.
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
   * Whether what the store has brings this follower further. Where the store has a gap, it may be what the
   * follower has already: after the same answer three times the question would never end.
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

  #begin (peer: string, { idx, chain }: Position): Feed {
    const feed: Feed = { sent: { idx, chain }, taken: idx, takenAt: this.#host.now(), handing: null,
      answer: false, finding: false, fullUntil: -Infinity }
    this.#feeds.set(peer, feed)
    return feed
  }

  /**
   * A new master may ask anybody; a follower only the master of its session, once that knows what it holds.
   */
  #mayAnswer ({ sid, learn }: Want): boolean {
    return learn || (this.#host.settled() && sid === this.#host.sid())
  }

  #find (to: string, want: Want | null, have: readonly Position[]): void {
    this.#finding.set(to, { answers: want !== null, want })
    this.#host.out({ type: 'find', to, have })
  }

  #answer (to: string, { sid, n, learn }: Want, { base, entries, end }: Page): void {
    const { log, highest, out } = this.#host
    const message: Outgoing =
      { type: 'page', sid, n, base, entries, last: place(log.last), above: highest() }
    if (learn) return out({ type: 'send', to, message })
    // What follows goes behind it.
    const feed = this.#begin(to, base)
    feed.handing = end
    feed.answer = true
    out({ type: 'feed', to, message })
  }

  #next (peer: string, feed: Feed): void {
    const { log } = this.#host
    const busy = feed.handing !== null || feed.finding || this.#host.now() < feed.fullUntil
    if (busy || isFull(feed) || feed.sent.idx >= log.last.idx) return
    const page = log.page(feed.sent)
    if (page !== null) {
      this.#append(peer, feed, page)
    } else if (!this.#finding.has(peer)) {
      feed.finding = true
      this.#find(peer, null, [feed.sent])
    }
  }

  /** What the store has behind what this follower was sent. */
  #continue (peer: string, base: Position | null, entries: readonly Entry[]): void {
    const feed = this.#feeds.get(peer)
    if (feed?.finding !== true) return
    feed.finding = false
    if (base !== null && entries.length > 0 && samePosition(base, feed.sent)) {
      this.#append(peer, feed, pageOf(base, entries))
    } else {
      // It may have been taken in meanwhile. If not, the follower has to show what it has.
      this.#feeds.delete(peer)
      this.#host.out({ type: 'send', to: peer, message: headOf(this.#host) })
    }
  }

  #append (to: string, feed: Feed, { entries, end }: Page): void {
    const { log, sid, out } = this.#host
    feed.handing = end
    out({ type: 'feed', to, message: { type: 'append', sid: sid(), entries, last: place(log.last) } })
  }
}

const isFull = ({ sent, taken }: Feed): boolean => sent.idx - taken >= WINDOW_IDX

/** What the store had. */
function pageOf (base: Position, entries: readonly Entry[]): Page {
  return { base: place(base), entries: JSON.stringify(entries), end: place(entries.at(-1) ?? base) }
}

/** Where the log ends. */
export function headOf ({ sid, log }: Pick<Host, 'sid' | 'log'>): Outgoing {
  return { type: 'head', sid: sid(), last: place(log.last) }
}
