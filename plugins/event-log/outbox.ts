import { jsonBytes } from './entries.js'
import { EVENT_BYTES, PAGE_BYTES, PAGE_ENTRIES, QUEUE_ENTRIES, RING_ENTRIES } from './limits.js'
import type { Submission } from './entries.js'

/** Events of this node that are not in the log, or no longer. */
export interface Outbox {
  readonly size: number
  /** Adds an event of this node. False when there is no room, or it is too large: it is then dropped. */
  add (submission: Submission): boolean
  /** Takes back what was in the log until its tail was replaced. Returns how many do not fit. */
  takeBack (submissions: readonly Submission[]): number
  /** It is in the log. */
  settle (id: string): void
  /** The first ones, at most a page. */
  page (): Submission[]
}

/** An empty outbox for `most` events of this node. */
export function createOutbox (most = QUEUE_ENTRIES, mostBack = RING_ENTRIES): Outbox {
  const own = new Map<string, Submission>()
  const back = new Map<string, Submission>()
  return {
    get size () { return own.size + back.size },
    add (submission) {
      if (own.size >= most || jsonBytes(submission) > EVENT_BYTES) return false
      own.set(submission.id, submission)
      return true
    },
    takeBack (submissions) {
      const fitting = submissions.slice(0, Math.max(0, mostBack - back.size))
      for (const submission of fitting) back.set(submission.id, submission)
      return submissions.length - fitting.length
    },
    settle (id) {
      own.delete(id)
      back.delete(id)
    },
    page: () => firstPage(back, own)
  }
}

function firstPage (...queues: Map<string, Submission>[]): Submission[] {
  const page: Submission[] = []
  let bytes = 0
  for (const queue of queues) {
    for (const submission of queue.values()) {
      bytes += jsonBytes(submission)
      if (page.length >= PAGE_ENTRIES || (bytes > PAGE_BYTES && page.length > 0)) return page
      page.push(submission)
    }
  }
  return page
}
