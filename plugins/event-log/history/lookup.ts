import { kernelError, SvcError } from '../../../kernel/index.js'
import { shown } from '../page.js'
import { invalid, readPoint } from '../query.js'
import { readLog } from '../source.js'
import { decodeBody } from './body.js'
import { EVENTS_SHOWN, READ_ENTRIES, SKEW_MS } from './limits.js'
import { advance, PART_KINDS } from './part.js'
import type { Clock, StateThen } from '../../../kernel/index.js'
import type { Entry } from '../entries.js'
import type { EventLog } from '../log.js'
import type { ShownEvent } from '../page.js'
import type { EventStore, Moment, Snapshot } from '../store/types.js'
import type { ClusterPart, Fields } from './part.js'
import type { Snapshots } from './recent.js'

/** The answer of GET /state?at=. */
export interface StateAt extends StateThen {
  /** What was asked for: an index, or a time (ISO-8601). */
  readonly at: number | string
  /** The recorded state that is shown, and why it was recorded. `stale`: the node knew no master then. */
  readonly snapshot: {
    readonly idx: number, readonly at: string, readonly sessionId: string, readonly cause: string
    readonly stale: boolean
    /** Keys of the state that were too large to be kept. */
    readonly omitted: readonly string[]
  }
  /** The state as it was recorded; later events are not applied to it. */
  readonly state: Fields
  /** Session, membership and instances, with all events since the snapshot up to `idx` applied. */
  readonly derived: ClusterPart & { readonly idx: number }
  /** The events since, oldest first. */
  readonly events: readonly ShownEvent[]
  /** There are further events: GET /events?since=<idx of the last one> goes on. */
  readonly more: boolean
  /** Indices in between that are not kept: `derived` lacks what they changed. */
  readonly gaps: readonly (readonly [number, number])[]
}

export interface LookupOptions {
  readonly log: EventLog
  readonly store: EventStore
  readonly snapshots: Snapshots
  readonly clock: Clock
}

/**
 * The state at an index or time. Throws `invalid_request`, `not_recorded`, and `not_ready` while the disk
 * does not give what is asked for.
 */
export async function stateAt (options: LookupOptions, text: string): Promise<StateAt> {
  try {
    return await lookUp(options, text)
  } catch (error) {
    if (error instanceof SvcError) throw error
    throw kernelError('not_ready', `What is recorded of ${text} cannot be read: ${(error as Error).message}`)
  }
}

async function lookUp (options: LookupOptions, text: string): Promise<StateAt> {
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
    snapshot: {
      idx: snapshot.idx, at: iso(snapshot.at), sessionId: snapshot.sid, cause: snapshot.cause, stale, omitted
    },
    state,
    derived: { idx, ...advance(part, changing) },
    events: events.slice(0, EVENTS_SHOWN).map(shown),
    more,
    gaps: gapsBetween(options, snapshot.idx, idx)
  }
}

async function nothingBefore (snapshots: Snapshots, text: string): Promise<SvcError> {
  const oldest = await snapshots.oldest()
  if (oldest === null) {
    return kernelError('not_recorded', 'Nothing is recorded on this node yet; that begins within a minute.',
      { oldest: null })
  }
  const at = iso(oldest.at)
  return kernelError('not_recorded',
    `Nothing is recorded of ${text}: the oldest recorded state is of ${at}, index ${oldest.idx}.`,
    { oldest: { idx: oldest.idx, at } })
}

interface Wanted { readonly limit: number, readonly kinds?: readonly string[] }

/** The entries behind the snapshot up to the moment, oldest first, at most `limit`. */
async function since (
  options: LookupOptions, snapshot: Snapshot, moment: Moment, { limit, kinds }: Wanted
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

/** Indices after `from` up to `to` that are not kept. */
function gapsBetween ({ log, store }: LookupOptions, from: number, to: number): [number, number][] {
  const { firstIdx, gaps: missing } = store.status()
  const first = firstIdx ?? log.base.idx + 1
  const gaps = missing.filter(([a]) => a >= first)
  // What is in memory is not missing, even if it is not stored.
  const until = Math.min(to, log.base.idx)
  return [[1, first - 1] as const, ...gaps].flatMap(([a, b]): [number, number][] => {
    const [begin, end] = [Math.max(a, from + 1), Math.min(b, until)]
    return begin <= end ? [[begin, end]] : []
  })
}

/** The newest index, and the present time, ms since 1970. */
interface Now { readonly idx: number, readonly ms: number }

/**
 * Reads `at`: an index or a time (ISO-8601). Throws `invalid_request` naming it for anything else and for a
 * time that is still to come, `not_recorded` for an index that is.
 */
function readMoment (text: string, now: Now): Moment {
  const moment = readPoint('at', text)
  if ('idx' in moment && moment.idx > now.idx) {
    throw kernelError('not_recorded', `There is no index ${moment.idx} yet: the newest is ${now.idx}.`,
      { param: 'at', newest: now.idx })
  }
  if ('ms' in moment && moment.ms > now.ms) {
    const seconds = Math.ceil((moment.ms - now.ms) / 1000)
    throw invalid('at', `at is ${text}, ${seconds} s in the future: this node's clock says ${iso(now.ms)}`)
  }
  return moment
}

/** A time as ISO-8601. */
const iso = (ms: number): string => new Date(ms).toISOString()
