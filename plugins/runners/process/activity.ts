import type { EngineEnv } from '../../../kernel/api/engine.js'
import { FROM_RUNNER } from './protocol.js'
import type { WorkMessage } from './messages.js'
import { SLOT } from './watchdog.js'
import type { NodeLink } from './node-link.js'

const LABEL_CHARS = 64

/** Implements EngineEnv.work, which throws RangeError if `units` is not a number above 0. */
export function createWork (link: NodeLink, state: Int32Array): EngineEnv['work'] {
  const announcer = new Announcer({
    now: () => performance.now(), after: (ms, fn) => { setTimeout(fn, ms).unref() },
    send: (message) => { link.send(FROM_RUNNER.work, 0, message) }
  })
  return async <T>(label: string, units: number, call: () => T | Promise<T>): Promise<T> => {
    if (!(units > 0 && Number.isFinite(units))) {
      throw new RangeError(`work units must be a number above 0, got ${units}`)
    }
    const handle = announcer.begin(String(label).slice(0, LABEL_CHARS), units)
    Atomics.add(state, SLOT.announced, 1)
    try {
      // Flush first, because the call may block this thread while the announcement is still in the buffer.
      if (link.behind) await link.flushed()
      return await call()
    } finally {
      Atomics.sub(state, SLOT.announced, 1)
      announcer.end(handle)
    }
  }
}

/** Milliseconds after an announcement during which a later call may reuse it instead of sending its own. */
const COALESCE_MS = 10
/**
 * A call expected to take at most this many ms may reuse any announcement, because the node treats work as
 * overdue only after 10 s or more.
 */
const SHORT_MS = 100

type Sums = Map<string, { units: number, ms: number }>

type OpenWork = WorkMessage['open'][number]
type Parked = OpenWork & { announcedAt: number }

interface Handle { label: string, units: number, startedAt: number, announced: Parked }

/** Dependencies of the announcer: a monotonic clock in ms, a one-shot timer, and the link to the node. */
interface AnnouncerIo {
  now (): number
  after (ms: number, fn: () => void): void
  send (message: WorkMessage): void
}

/**
 * Announces each blocking call and its size to the node before it starts. Short calls in a row are coalesced:
 * the end of a call is reported 10 ms late, and a call that starts during these 10 ms reuses the announcement
 * if it is expected to end in time. So the node always has an open announcement while a call blocks this
 * thread, and gets at most a few hundred frames a second.
 */
export class Announcer {
  readonly #io: AnnouncerIo
  readonly #parked = new Map<number, Parked>()
  readonly #total: Sums = new Map()
  #measured: Sums = new Map()
  #lastId = 0
  #timerSet = false

  constructor (io: AnnouncerIo) { this.#io = io }

  begin (label: string, units: number): Handle {
    const startedAt = this.#io.now()
    const cover = this.#cover(label, units, startedAt)
    if (cover !== undefined) {
      this.#parked.delete(cover.id)
      return { label, units, startedAt, announced: cover }
    }
    const announced = { id: ++this.#lastId, label, units, announcedAt: startedAt }
    this.#flush([{ id: announced.id, label, units }])
    return { label, units, startedAt, announced }
  }

  end (handle: Handle): void {
    const ms = this.#io.now() - handle.startedAt
    add(this.#measured, handle.label, handle.units, ms)
    add(this.#total, handle.label, handle.units, ms)
    this.#parked.set(handle.announced.id, handle.announced)
    this.#arm()
  }

  #cover (label: string, units: number, now: number): Parked | undefined {
    const total = this.#total.get(label)
    const short = total !== undefined && total.ms / total.units * units < SHORT_MS
    return [...this.#parked.values()].find((parked) =>
      now - parked.announcedAt < COALESCE_MS && (short || (parked.label === label && units <= parked.units)))
  }

  #arm (): void {
    if (this.#timerSet) return
    this.#timerSet = true
    this.#io.after(COALESCE_MS, () => {
      this.#timerSet = false
      if (this.#parked.size > 0) this.#flush([])
    })
  }

  #flush (open: OpenWork[]): void {
    const closed = [...this.#parked.keys()]
    const measured = [...this.#measured].map(([label, { units, ms }]) => ({ label, units, ms }))
    this.#parked.clear()
    this.#measured = new Map()
    this.#io.send({ open, closed, measured })
  }
}

function add (sums: Sums, label: string, units: number, ms: number): void {
  const sum = sums.get(label) ?? { units: 0, ms: 0 }
  sum.units += units
  sum.ms += ms
  sums.set(label, sum)
}
