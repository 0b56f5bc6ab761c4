import { jsonBytes } from './entries.js'
import { EVENT_BYTES, QUEUE_ENTRIES, RING_ENTRIES } from './limits.js'
import { fitting } from './messages.js'
import type { Submission } from './entries.js'
import type { Output } from './steps.js'

/** Events that are not in the log: new ones of this node, and those that were cut out of the log. */
export interface Outbox {
  readonly size: number
  /** Adds an event of this node. False when there is no room, or it is too large: it is then dropped. */
  add (submission: Submission): boolean
  /** Takes events that were cut out of the log. Returns how many do not fit: they are dropped. */
  takeBack (submissions: readonly Submission[]): number
  /** Removes an event: it is in the log now. */
  settle (id: string): void
  /** The oldest events, as many as fit into one message. */
  page (): Submission[]
}

/** An empty outbox for `most` events of this node. */
export function createOutbox (most = QUEUE_ENTRIES, mostBack = RING_ENTRIES): Outbox {
  const own: Queue = new Map()
  const back: Queue = new Map()
  return {
    get size () { return own.size + back.size },
    add (submission) {
      const bytes = jsonBytes(submission)
      if (own.size >= most || bytes > EVENT_BYTES) return false
      own.set(submission.id, { submission, bytes })
      return true
    },
    takeBack (submissions) {
      const fitting = submissions.slice(0, Math.max(0, mostBack - back.size))
      for (const submission of fitting) {
        back.set(submission.id, { submission, bytes: jsonBytes(submission) })
      }
      return submissions.length - fitting.length
    },
    settle (id) {
      own.delete(id)
      back.delete(id)
    },
    page: () => fitting([...back.values(), ...own.values()], ({ bytes }) => bytes)
      .map(({ submission }) => submission)
  }
}

/** Events by id, in order, with the bytes of each as JSON. */
type Queue = Map<string, { readonly submission: Submission, readonly bytes: number }>

/** Counts the events of this node that were dropped since that was last reported. */
export class Dropped {
  #from = 0
  #count = 0

  /** `idx`: newest index of the log. */
  add (count: number, idx: number): void {
    if (this.#count === 0) this.#from = idx
    this.#count += count
  }

  take (idx: number): Extract<Output, { type: 'dropped' }>[] {
    if (this.#count === 0) return []
    const dropped = { type: 'dropped', from: this.#from, to: idx, count: this.#count } as const
    this.#count = 0
    return [dropped]
  }
}
