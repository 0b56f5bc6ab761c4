import { jsonBytes, type Submission } from '../log/entries.js'
import { fitting } from '../log/log.js'

/** Maximum events from this node that wait for an index; any more are dropped and counted. */
const QUEUE_ENTRIES = 1_000

const BACK_ENTRIES = 10_000

/** Events above this size are dropped and counted, so that the newest 20,000 always fit on the disk. */
export const EVENT_BYTES = 8 * 1024

/** Events by id, in order, with the JSON size of each. */
type Queue = Map<string, { readonly submission: Submission, readonly bytes: number }>

/** Events that are not in the log: new ones of this node, and those cut from the log. Counts dropped ones. */
export class Outbox {
  readonly #own: Queue = new Map()
  readonly #back: Queue = new Map()
  /** Number of events dropped since the last report, and the newest index when the first was dropped. */
  #dropped = { count: 0, from: 0 }

  get size (): number { return this.#own.size + this.#back.size }

  /** Adds an event from this node. Drops it if the queue is full or the event is too large. */
  add (submission: Submission, lastIdx: number): void {
    const bytes = jsonBytes(submission)
    if (this.#own.size >= QUEUE_ENTRIES || bytes > EVENT_BYTES) this.#drop(1, lastIdx)
    else this.#own.set(submission.id, { submission, bytes })
  }

  /** Adds events that were cut from the log. Drops those that do not fit. */
  takeBack (submissions: readonly Submission[], lastIdx: number): void {
    const free = Math.max(0, BACK_ENTRIES - this.#back.size)
    for (const submission of submissions.slice(0, free)) {
      this.#back.set(submission.id, { submission, bytes: jsonBytes(submission) })
    }
    this.#drop(Math.max(0, submissions.length - free), lastIdx)
  }

  settle (id: string): void {
    this.#own.delete(id)
    this.#back.delete(id)
  }

  /** The oldest events, as many as fit into one message. */
  page (): Submission[] {
    return fitting([...this.#back.values(), ...this.#own.values()], ({ bytes }) => bytes)
      .map(({ submission }) => submission)
  }

  /** Returns and clears the number of dropped events; null if there are none or events are still queued. */
  takeDropped (): { from: number, count: number } | null {
    if (this.#dropped.count === 0 || this.size > 0) return null
    const dropped = this.#dropped
    this.#dropped = { count: 0, from: 0 }
    return dropped
  }

  #drop (count: number, lastIdx: number): void {
    const from = this.#dropped.count === 0 ? lastIdx : this.#dropped.from
    this.#dropped = { count: this.#dropped.count + count, from }
  }
}
