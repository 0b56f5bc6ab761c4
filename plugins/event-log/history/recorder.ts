import { kindOf, type Entry, type Position } from '../log/entries.js'
import { firstAfter, type EventLog, type LogChange } from '../log/log.js'
import { encodeBody, noteOf } from './body.js'
import { Draft, fieldsOf, PART_KINDS, partOf, type ClusterPart } from './part.js'
import type { Clock, Logger, Session, StateReader } from '../../../kernel/index.js'
import type { Snapshots } from './lookup.js'

const MINUTE_MS = 60_000
/** Interval in ms between snapshots while only readings change. */
const REFRESH_MS = 600_000
/** Age in ms at which an event is certainly part of the state. */
const SETTLE_MS = 500
/** Maximum ms for which a snapshot waits for a pause in the events. */
const SETTLE_MOST_MS = 5_000
/** Minimum time in ms between two snapshots. */
const APART_MS = 2_000
/** Minimum time in ms between two snapshots that failed tasks cause. */
const TASKS_APART_MS = 30_000

export interface RecorderOptions {
  readonly log: EventLog
  readonly snapshots: Snapshots
  readonly state: Pick<StateReader, 'read'>
  readonly session: Pick<Session, 'isMaster' | 'masterNodeId' | 'onChange'>
  /** True while this node's log is complete, as far as this node knows. */
  readonly inStep: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

const CAUSES = new Set([
  ...PART_KINDS, 'RunnerFailed', 'InstanceFailureRecorded', 'TaskFailed', 'DownloadFailed', 'StateDiverged'
])
const PARTS = new Set(PART_KINDS)
/** Weak causes: a pending snapshot records any other cause instead of one of these. */
const WEAK = new Set(['minute', 'TaskFailed'])

/** Takes a snapshot every minute, and soon after each event in `CAUSES`. Returns a function that stops it. */
export function startRecorder (options: RecorderOptions): () => void {
  const recorder = new Recorder(options)
  const stops = [
    options.log.onChange((change) => { recorder.changed(change) }),
    options.session.onChange(() => { recorder.request('session') }),
    options.clock.every(MINUTE_MS, () => { recorder.request('minute') }),
    () => { recorder.stop() }
  ]
  recorder.request('start')
  return () => { for (const stop of stops) stop() }
}

class Recorder {
  readonly #options: RecorderOptions
  /** Cause and time (monotonic ms) of the next snapshot; null for none. */
  #next: { readonly cause: string, readonly since: number } | null = null
  #cancel = (): void => {}
  #busy = false
  #stopped = false
  #takenAt = -Infinity
  #noted = ''
  /** Monotonic time in ms of the last snapshot. */
  #notedAt = -Infinity
  /** Session, members and instances in the newest snapshot, and its index. */
  #base: { readonly part: ClusterPart, readonly idx: number } | null = null
  /** `#base.part` with all events since then applied; null if the log does not reach back that far. */
  #draft: Draft | null = null
  /** Recent events that the state may not contain yet. */
  #fresh: { readonly prev: number, readonly at: number }[] = []

  constructor (options: RecorderOptions) { this.#options = options }

  stop (): void {
    this.#stopped = true
    this.#cancel()
  }

  changed (change: LogChange): void {
    if (change.type === 'append') this.#appended(change.entry)
    else this.#cut(change.after, change.base)
  }

  #appended (entry: Entry): void {
    const kind = kindOf(entry.event)
    this.#draft?.apply(entry)
    if (PARTS.has(kind)) this.#fresh.push({ prev: entry.prev, at: this.#options.clock.mono() })
    const ready = kind === 'RunnerStatusUpdated' && 'RunnerReady' in fieldsOf(entry.event[kind]?.['status'])
    if (CAUSES.has(kind) || ready) this.request(kind)
  }

  /** Applies the in-memory events after an index to a part. */
  #drafted (part: ClusterPart, after: number): Draft {
    const { entries } = this.#options.log
    return new Draft(part, entries.slice(firstAfter(entries, after)))
  }

  #cut (after: number, begin: Position | null): void {
    // If the log restarts at a later position, the snapshots before that position remain valid.
    this.#options.snapshots.cut(begin?.idx ?? after)
    const isTail = begin === null && this.#base !== null
    this.#draft = isTail ? this.#drafted(this.#base!.part, this.#base!.idx) : null
    this.#fresh = []
    this.request('session')
  }

  /** Schedules a snapshot, for which the first cause that is not weak is recorded. */
  request (cause: string): void {
    const since = this.#next?.since ?? this.#options.clock.mono()
    const first = this.#next?.cause ?? cause
    this.#next = { since, cause: WEAK.has(first) ? cause : first }
    this.#arm()
  }

  #arm (): void {
    this.#cancel()
    if (this.#next === null || this.#busy || this.#stopped) return
    const { cause, since } = this.#next
    const now = this.#options.clock.mono()
    const settled = Math.min((this.#fresh.at(-1)?.at ?? since) + SETTLE_MS, since + SETTLE_MOST_MS)
    const apart = this.#takenAt + (cause === 'TaskFailed' ? TASKS_APART_MS : APART_MS)
    const ms = Math.max(0, settled - now, apart - now)
    this.#cancel = this.#options.clock.after(ms, () => { void this.#take() })
  }

  async #take (): Promise<void> {
    const { clock, logger, session, inStep } = this.#options
    if (session.masterNodeId !== null && !inStep()) {
      // Wait, because the log is behind the state, so no index would match it.
      this.#takenAt = clock.mono()
      this.#arm()
      return
    }
    const { cause } = this.#next!
    this.#next = null
    this.#busy = true
    const idx = this.#settledIdx()
    try {
      this.#record(cause, idx, await this.#options.state.read())
    } catch (err) {
      logger.error({ err, cause }, 'a snapshot of the state failed; the next one follows as usual')
    }
    this.#takenAt = clock.mono()
    this.#busy = false
    this.#arm()
  }

  /** Newest index whose event is certainly in the state; applying later events again is harmless. */
  #settledIdx (): number {
    const settled = this.#options.clock.mono() - SETTLE_MS
    this.#fresh = this.#fresh.filter(({ at }) => at > settled)
    return this.#fresh[0]?.prev ?? this.#options.log.last.idx
  }

  #record (cause: string, settled: number, state: Record<string, unknown>): void {
    const { clock, snapshots, log } = this.#options
    // Take the smaller index, because the log may have been cut while the state was read.
    const idx = Math.min(settled, log.last.idx)
    const stale = typeof state['masterNodeId'] !== 'string'
    const part = this.#partOf(partOf(state), stale)
    // Before a node's first session, there is no state to record.
    if (this.#stopped || part.session.sessionId === '') return
    const noted = noteOf(state, part)
    const now = clock.mono()
    if (cause === 'minute' && noted === this.#noted && now - this.#notedAt < REFRESH_MS) return
    this.#noted = noted
    this.#notedAt = now
    this.#base = { part, idx }
    this.#draft = this.#drafted(part, idx)
    const { sessionId: sid } = part.session
    snapshots.add({ idx, at: clock.now(), sid, cause, body: encodeBody({ part, stale }, state) })
  }

  /**
   * The cluster part to record. The master's view is correct; other nodes may lack links, so they take the
   * members from events, and without a master the whole part. Reapplying newer events is harmless.
   */
  #partOf (seen: ClusterPart, stale: boolean): ClusterPart {
    const { log, session } = this.#options
    if (!stale && session.isMaster) return seen
    const derived = (this.#draft ?? this.#drafted(seen, log.base.idx)).part()
    return stale ? derived : { ...seen, members: derived.members }
  }
}
