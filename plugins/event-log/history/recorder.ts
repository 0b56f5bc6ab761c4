import { kindOf } from '../entries.js'
import { firstAfter } from '../log.js'
import { encodeBody, noteOf } from './body.js'
import {
  APART_MS, FOLLOW_ENTRIES, MINUTE_MS, REFRESH_MS, SETTLE_MOST_MS, SETTLE_MS, TASKS_APART_MS
} from './limits.js'
import { advance, fieldsOf, PART_KINDS, partOf } from './part.js'
import type { Clock, Logger, Session, StateReader } from '../../../kernel/index.js'
import type { Entry } from '../entries.js'
import type { EventLog, LogChange } from '../log.js'
import type { ClusterPart } from './part.js'
import type { Snapshots } from './recent.js'

export interface RecorderOptions {
  readonly log: EventLog
  readonly snapshots: Snapshots
  readonly state: Pick<StateReader, 'read'>
  readonly session: Pick<Session, 'isMaster' | 'masterNodeId' | 'onChange'>
  /** True while this node's log has all that its master's has. */
  readonly inStep: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

/** Events after which a snapshot is taken. */
const CAUSES = new Set([
  ...PART_KINDS, 'RunnerFailed', 'InstanceFailureRecorded', 'TaskFailed', 'DownloadFailed', 'StateDiverged'
])
const PARTS = new Set(PART_KINDS)
/** Causes that give way to any other. */
const WEAK = new Set(['minute', 'TaskFailed'])

/** Takes snapshots: once a minute, and soon after what changes or breaks something. Returns what stops it. */
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
  /** Why the next one is taken, and since when that is wanted (monotonic ms); null when none is. */
  #next: { readonly cause: string, readonly since: number } | null = null
  #cancel = (): void => {}
  #busy = false
  #stopped = false
  /** Monotonic ms of the newest attempt. */
  #takenAt = -Infinity
  /** What the newest one says of note. */
  #noted = ''
  /** When what is of note was last recorded, monotonic ms. */
  #notedAt = -Infinity
  /** Session, membership and instances as the newest one had them, and up to which event. */
  #base: { readonly part: ClusterPart, readonly idx: number } | null = null
  /** Events that came just now: the documents may not be as far yet. */
  #fresh: { readonly prev: number, readonly at: number }[] = []

  constructor (options: RecorderOptions) { this.#options = options }

  stop (): void {
    this.#stopped = true
    this.#cancel()
  }

  changed (change: LogChange): void {
    if (change.type === 'append') this.#appended(change.entry)
    // A log that begins anew further on: what came before is as true as it was.
    else this.#cut(change.base?.idx ?? change.after)
  }

  #appended (entry: Entry): void {
    const kind = kindOf(entry.event)
    if (PARTS.has(kind)) this.#fresh.push({ prev: entry.prev, at: this.#options.clock.mono() })
    const ready = kind === 'RunnerStatusUpdated' && 'RunnerReady' in fieldsOf(entry.event[kind]?.['status'])
    if (CAUSES.has(kind) || ready) this.wanted(kind)
    this.#follow()
  }

  /** Takes in what happened since the newest snapshot, before the log forgets it. */
  #follow (): void {
    const { log } = this.#options
    const base = this.#base
    const due = base !== null && base.idx >= log.base.idx && base.idx - log.base.idx < FOLLOW_ENTRIES &&
      log.last.idx - base.idx >= 2 * FOLLOW_ENTRIES
    if (!due) return
    const idx = this.#settledIdx()
    if (idx > base.idx) this.#base = { part: this.#advanced(base, idx), idx }
  }

  #advanced ({ part, idx }: { part: ClusterPart, idx: number }, until: number): ClusterPart {
    const { entries } = this.#options.log
    return advance(part, entries.slice(firstAfter(entries, idx), firstAfter(entries, until)))
  }

  #cut (after: number): void {
    this.#options.snapshots.cut(after)
    if (this.#base !== null && this.#base.idx > after) this.#base = { part: this.#base.part, idx: after }
    this.#fresh = []
    this.wanted('session')
  }

  /** One is to be taken; the first cause names it, unless that was a weak one. */
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
      // The documents are ahead of a log that has yet to catch up; no index would fit.
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

  /** The newest event that the documents must have in them. They may have later ones too: no harm in that. */
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
    const part = this.#partAt(idx, partOf(state), stale)
    // Before its first session a node knows nothing.
    if (this.#stopped || part.session.sessionId === '') return
    const noted = noteOf(state, part)
    const now = clock.mono()
    if (cause === 'minute' && noted === this.#noted && now - this.#notedAt < REFRESH_MS) return
    this.#noted = noted
    this.#notedAt = now
    this.#base = { part, idx }
    const { sessionId: sid } = part.session
    snapshots.add({ idx, at: clock.now(), sid, cause, body: encodeBody({ part, stale }, state) })
  }

  /**
   * The master's own view is what it tells the others. Another node may have no link to one that the master
   * sees: who is there it knows from the events. While there is no master the events know all better.
   */
  #partAt (idx: number, seen: ClusterPart, stale: boolean): ClusterPart {
    const { log, session } = this.#options
    if (!stale && session.isMaster) return seen
    const known = this.#base !== null && this.#base.idx >= log.base.idx
    const from = known ? this.#base! : { part: seen, idx: log.base.idx }
    const told = this.#advanced(from, idx)
    return stale ? told : { ...seen, members: told.members }
  }
}
