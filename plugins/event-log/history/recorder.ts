import { kindOf } from '../log/entries.js'
import { firstAfter } from '../log/log.js'
import { encodeBody, noteOf } from './body.js'
import { Draft, fieldsOf, PART_KINDS, partOf } from './part.js'
import type { Clock, Logger, Session, StateReader } from '../../../kernel/index.js'
import type { Entry, Position } from '../log/entries.js'
import type { EventLog, LogChange } from '../log/log.js'
import type { ClusterPart } from './part.js'
import type { Snapshots } from './lookup.js'

/** Interval of snapshots, ms. */
const MINUTE_MS = 60_000
/** Interval of snapshots while only readings change, ms. */
const REFRESH_MS = 600_000
/** The state contains an event when that is so old, ms. */
const SETTLE_MS = 500
/** A snapshot waits at most this long for a pause in the events, ms. */
const SETTLE_MOST_MS = 5_000
/** Least time between two snapshots, ms. */
const APART_MS = 2_000
/** Least time between two snapshots for failed tasks, ms. */
const TASKS_APART_MS = 30_000

export interface RecorderOptions {
  readonly log: EventLog
  readonly snapshots: Snapshots
  readonly state: Pick<StateReader, 'read'>
  readonly session: Pick<Session, 'isMaster' | 'masterNodeId' | 'onChange'>
  /** True while this node's log is complete, as far as is known. */
  readonly inStep: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

/** Events that trigger a snapshot. */
const CAUSES = new Set([
  ...PART_KINDS, 'RunnerFailed', 'InstanceFailureRecorded', 'TaskFailed', 'DownloadFailed', 'StateDiverged'
])
const PARTS = new Set(PART_KINDS)
/** Causes that any other cause replaces as the reason of a waiting snapshot. */
const WEAK = new Set(['minute', 'TaskFailed'])

/** Takes a snapshot once a minute, and soon after each of the causes. Returns a function that stops it. */
export function startRecorder (options: RecorderOptions): () => void {
  const recorder = new Recorder(options)
  const stops = [
    options.log.onChange((change) => { recorder.changed(change) }),
    options.session.onChange(() => { recorder.wanted('session') }),
    options.clock.every(MINUTE_MS, () => { recorder.wanted('minute') }),
    () => { recorder.stop() }
  ]
  recorder.wanted('start')
  return () => { for (const stop of stops) stop() }
}

class Recorder {
  readonly #options: RecorderOptions
  /** Cause and time (monotonic ms) of the next snapshot; null for none. */
  #next: { readonly cause: string, readonly since: number } | null = null
  #cancel = (): void => {}
  #busy = false
  #stopped = false
  /** Monotonic ms of the newest attempt. */
  #takenAt = -Infinity
  #noted = ''
  /** Time of that record, monotonic ms. */
  #notedAt = -Infinity
  /** Session, members and instances in the newest snapshot, and its index. */
  #base: { readonly part: ClusterPart, readonly idx: number } | null = null
  /** These with all events since applied; null where the log does not go back to the snapshot. */
  #draft: Draft | null = null
  /** Events that came just now: the state may not contain them yet. */
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
    if (CAUSES.has(kind) || ready) this.wanted(kind)
  }

  /** A part with the events after an index applied, as far as memory has them. */
  #drafted (part: ClusterPart, after: number): Draft {
    const { entries } = this.#options.log
    const draft = new Draft(part)
    for (const entry of entries.slice(firstAfter(entries, after))) draft.apply(entry)
    return draft
  }

  #cut (after: number, begin: Position | null): void {
    // A log that restarts further on keeps its earlier part.
    this.#options.snapshots.cut(begin?.idx ?? after)
    const isTail = begin === null && this.#base !== null
    this.#draft = isTail ? this.#drafted(this.#base!.part, this.#base!.idx) : null
    this.#fresh = []
    this.wanted('session')
  }

  /** A snapshot is to be taken. It is named after the first cause, unless that was a weak one. */
  wanted (cause: string): void {
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
      // The log has yet to catch up with the state: no index would fit.
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
      logger.error({ err, cause }, 'a snapshot of the state could not be taken; the next is tried as usual')
    }
    this.#takenAt = clock.mono()
    this.#busy = false
    this.#arm()
  }

  /** The newest event that the state certainly contains. It may contain later ones too: no harm in that. */
  #settledIdx (): number {
    const settled = this.#options.clock.mono() - SETTLE_MS
    this.#fresh = this.#fresh.filter(({ at }) => at > settled)
    return this.#fresh[0]?.prev ?? this.#options.log.last.idx
  }

  #record (cause: string, settled: number, state: Record<string, unknown>): void {
    const { clock, snapshots, log } = this.#options
    // The log may have been cut while the state was read.
    const idx = Math.min(settled, log.last.idx)
    const stale = typeof state['masterNodeId'] !== 'string'
    const part = this.#partOf(partOf(state), stale)
    // There is nothing to record before a node's first session.
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
   * The master's view is right. Another node may lack a link that the master has, so its members come from
   * the events, and without a master the whole part does. Events that are newer than the snapshot are
   * idempotent.
   */
  #partOf (seen: ClusterPart, stale: boolean): ClusterPart {
    const { log, session } = this.#options
    if (!stale && session.isMaster) return seen
    const derived = (this.#draft ?? this.#drafted(seen, log.base.idx)).part()
    return stale ? derived : { ...seen, members: derived.members }
  }
}
