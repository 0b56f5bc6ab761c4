import { kernelError, SvcError, type Clock } from '../../../kernel/index.js'
import { missingOf, readLog, shown, type Source } from '../reading/page.js'
import { invalid, readPoint } from '../reading/query.js'
import { within } from '../store/gaps.js'
import { decodeBody } from './body.js'
import { Draft, PART_KINDS } from './part.js'
import type { Entry } from '../log/entries.js'
import type { EventStore } from '../store/store.js'
import type { IndexOrTime, Snapshot } from '../store/types.js'

/** Maximum bytes of snapshots in memory, on a node with a store and on one without. */
const RECENT_BYTES = 2 * 1024 * 1024
const MEMORY_BYTES = 16 * 1024 * 1024
const EVENTS_SHOWN = 200
const READ_ENTRIES = 1_000
/** Maximum clock difference in ms between nodes that a search by time allows for. */
const SKEW_MS = 60_000

export type StateAt = Awaited<ReturnType<typeof lookUp>>

export interface LookupOptions extends Source {
  readonly snapshots: Snapshots
  readonly clock: Pick<Clock, 'now'>
}

/** Finds the state. Throws `invalid_request`, `not_recorded`, or `not_ready` if the disk does not respond. */
export async function stateAt (options: LookupOptions, text: string): Promise<StateAt> {
  try {
    return await lookUp(options, text)
  } catch (error) {
    if (error instanceof SvcError) throw error
    throw kernelError('not_ready', `The record of ${text} cannot be read: ${(error as Error).message}`)
  }
}

async function lookUp (options: LookupOptions, text: string) {
  const { log, snapshots, clock } = options
  const moment = readMoment(text, { idx: log.last.idx, ms: clock.now() })
  const snapshot = await snapshots.before(moment)
  if (snapshot === null) throw await nothingBefore(snapshots, text)
  const { part, stale, omitted, state } = decodeBody(snapshot.body)
  const changing = await since(options, snapshot, moment, { limit: Infinity, kinds: PART_KINDS })
  const events = await since(options, snapshot, moment, { limit: EVENTS_SHOWN + 1 })
  const more = events.length > EVENTS_SHOWN
  const last = Math.max(snapshot.idx, changing.at(-1)?.idx ?? 0, events.at(-1)?.idx ?? 0)
  const idx = 'idx' in moment ? moment.idx : last
  return {
    at: 'idx' in moment ? moment.idx : iso(moment.ms),
    /** The recorded state and its trigger. `stale`: the node knew no master at that time. */
    snapshot: {
      idx: snapshot.idx, at: iso(snapshot.at), sessionId: snapshot.sid, cause: snapshot.cause, stale, omitted
    },
    /** The state as it was recorded; later events are not applied to it. */
    state,
    /** Session, members and instances at `idx`: the snapshot's, with later events applied. */
    derived: { idx, ...new Draft(part, changing).part() },
    events: events.slice(0, EVENTS_SHOWN).map(shown),
    /** True if there are more events, which GET /events?since=<idx of the last one> returns. */
    more,
    // The events missing between the snapshot and `idx`, whose changes `derived` lacks. Only older entries
    // can be missing, because those in memory are available even if they are not stored.
    gaps: within(missingOf(options), snapshot.idx + 1, Math.min(idx, log.base.idx))
  }
}

async function nothingBefore (snapshots: Snapshots, text: string): Promise<SvcError> {
  const oldest = await snapshots.oldest()
  if (oldest === null) {
    return kernelError('not_recorded', 'This node has recorded no state yet; the first follows in a minute.',
      { oldest: null })
  }
  const at = iso(oldest.at)
  return kernelError('not_recorded',
    `No state is recorded for ${text}: the oldest one is from ${at}, index ${oldest.idx}.`,
    { oldest: { idx: oldest.idx, at } })
}

/** The entries after the snapshot up to the requested moment, oldest first, at most `limit`. */
async function since (
  options: LookupOptions, snapshot: Snapshot, moment: IndexOrTime,
  { limit, kinds }: { limit: number, kinds?: readonly string[] }
): Promise<Entry[]> {
  const found: Entry[] = []
  const until = 'idx' in moment ? moment.idx : Number.MAX_SAFE_INTEGER
  for (let after = snapshot.idx; after < until;) {
    const page = await readLog(options, {
      after, until, limit: READ_ENTRIES, ...(kinds === undefined ? {} : { kinds })
    })
    for (const entry of page) {
      if ('idx' in moment || Date.parse(entry.at) <= moment.ms) found.push(entry)
      if (found.length >= limit) return found
    }
    const last = page.at(-1)
    if (last === undefined || page.length < READ_ENTRIES) return found
    if ('ms' in moment && Date.parse(last.at) > moment.ms + SKEW_MS) return found
    after = last.idx
  }
  return found
}

/** Parses an index or a time. Throws `invalid_request`, and `not_recorded` for a future index. */
function readMoment (text: string, now: { idx: number, ms: number }): IndexOrTime {
  const moment = readPoint('at', text)
  if ('idx' in moment && moment.idx > now.idx) {
    throw kernelError('not_recorded', `Index ${moment.idx} does not exist yet: the newest is ${now.idx}.`,
      { param: 'at', newest: now.idx })
  }
  if ('ms' in moment && moment.ms > now.ms) {
    const seconds = Math.ceil((moment.ms - now.ms) / 1000)
    throw invalid('at', `at is ${text}, ${seconds} s in the future: this node's clock says ${iso(now.ms)}`)
  }
  return moment
}

const iso = (ms: number): string => new Date(ms).toISOString()

function isBefore (snapshot: Snapshot, moment: IndexOrTime): boolean {
  return 'idx' in moment ? snapshot.idx <= moment.idx : snapshot.at <= moment.ms
}

/** Finds snapshots; the store has all of them, and the newest are in memory too. */
export class Snapshots {
  readonly #store: EventStore
  readonly #recent: Snapshot[] = []
  #bytes = 0

  constructor (store: EventStore) { this.#store = store }

  add (snapshot: Snapshot): void {
    this.#store.record(snapshot)
    this.#recent.push(snapshot)
    this.#bytes += snapshot.body.length
    const most = this.#store.status().mode === 'memory' ? MEMORY_BYTES : RECENT_BYTES
    while (this.#bytes > most && this.#recent.length > 1) this.#bytes -= this.#recent.shift()!.body.length
  }

  /** The log was cut after this index, so snapshots with a later index get this one. */
  cut (after: number): void {
    for (const [i, snapshot] of this.#recent.entries()) {
      if (snapshot.idx > after) this.#recent[i] = { ...snapshot, idx: after }
    }
  }

  /** The newest snapshot at or before that moment, or null. Rejects if the store does. */
  async before (moment: IndexOrTime): Promise<Snapshot | null> {
    const found = this.#recent.findLast((snapshot) => isBefore(snapshot, moment))
    return found ?? await this.#store.snapshotBefore(moment)
  }

  /** The oldest snapshot, or null. Reads the store a few dozen times at most. */
  async oldest (): Promise<Snapshot | null> {
    let oldest = this.#recent[0] ?? await this.#store.snapshotBefore({ ms: Number.MAX_SAFE_INTEGER })
    if (oldest === null) return null
    // Binary search: there is no snapshot before `low`, and the oldest known one is at or after it.
    for (let low = 0; low < oldest.at;) {
      const middle: number = low + Math.floor((oldest.at - low) / 2)
      const older: Snapshot | null = await this.#store.snapshotBefore({ ms: middle })
      if (older === null) low = middle + 1
      else oldest = older
    }
    return oldest
  }
}
