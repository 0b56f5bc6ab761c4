import { backoffMs, delay } from '../../../kernel/index.js'
import type { Clock, Logger, ModelCard, Section } from '../../../kernel/index.js'
import { LaunchError } from './failures.js'
import type { FailureCode } from './failures.js'
import { reasonOf } from '../process/errors.js'
import { kindOf, serves } from '../process/states.js'
import type { RunnerOptions, Supervisor } from '../process/supervisor.js'
import type { RunnerReport, RunnerStatus } from '../service.js'
import type { Assignment } from './shapes.js'

/** Longest error text in an event, a status or a failure record. */
const MESSAGE_CHARS_MAX = 500
/** Progress and Ready/Running changes reach the document at most this often; other changes at once. */
const STATUS_COALESCE_MS = 500

/** What a runner needs to be made, without the callbacks. */
export type LaunchOptions = Omit<RunnerOptions, 'onStatus' | 'onFailed'>

/** A runner of this node. */
export interface Member {
  readonly assignment: Assignment
  /** Null when it could not even be made, e.g. because the card is broken. */
  supervisor: Supervisor | null
  card: ModelCard | null
  /** It is a donor: it serves no tasks itself, but gives memory and compute to the runner of another node. */
  readonly lends: boolean
  /** Monotonic ms of the last chunk that a real inference gave; null when none did. */
  forwardMono: number | null
  /** It has used up its attempts to start. */
  gaveUp: boolean
}

export interface RunnerFailure {
  errorMessage: string
  errorCode: FailureCode
  attempts: number
}

export interface FleetParts {
  clock: Clock
  log: Logger
  statuses: RunnerStatuses
  create (options: RunnerOptions): Supervisor
  /** Fetches what an assignment needs; undefined when nothing is missing. Tells `waits` what it waits for. */
  prepare (assignment: Assignment, waits: (message: string) => void): Promise<unknown> | undefined
  /** Whether an assignment is a donor: it computes for the runner of another node. */
  lends (assignment: Assignment): boolean
  /** Says how to run an assignment. Throws when that is impossible. */
  launch (assignment: Assignment): LaunchOptions
  /** Rejects when the runner must not start now, e.g. for lack of memory. */
  admit (assignment: Assignment, options: LaunchOptions): Promise<void>
  /** The runner is in a new stage of its life. */
  onMoved (assignment: Assignment, status: RunnerStatus): void
  onFailed (assignment: Assignment, failure: RunnerFailure): void
  /** Something changed that readiness or routing depends on. */
  onChange (): void
}

/** The runners of this node. */
export interface Fleet {
  start (assignment: Assignment): void
  /** Restarts a runner, with its files and donors prepared afresh; its status tells `message` meanwhile. */
  again (runnerId: string, message: string): Promise<void>
  /** Resolves when the process is gone. */
  stop (runnerId: string): Promise<void>
  get (runnerId: string): Member | undefined
  members (): Member[]
  status (member: Member): RunnerStatus
  /** True when the runner accepts tasks. */
  ready (member: Member): boolean
  reports (): RunnerReport[]
}

/** Pauses between attempts to get a model's files, ms. */
const PAUSE = { minMs: 1000, maxMs: 30_000 }
/** Failures that would be the same on any other node, so that moving the instance does not help. */
const SAME_EVERYWHERE: ReadonlySet<string> = new Set([
  'store_unreachable', 'store_not_configured', 'model_not_found', 'model_going', 'model_in_use', 'unreachable'
])

/** The runners of a node; none yet. */
export const createFleet = (parts: FleetParts): Fleet => new RunnerFleet(parts)

class RunnerFleet implements Fleet {
  readonly #parts: FleetParts
  readonly #members = new Map<string, Member>()
  /** Cancels the preparation of members whose files or donors are not there yet. */
  readonly #waits = new Map<string, AbortController>()
  /** The newest launch of each member; callbacks of an earlier launch are ignored. */
  readonly #launches = new Map<string, object>()

  constructor (parts: FleetParts) { this.#parts = parts }

  start (assignment: Assignment): void {
    if (this.#members.has(assignment.runnerId)) return
    const lends = this.#parts.lends(assignment)
    const member = { assignment, supervisor: null, card: null, lends, forwardMono: null, gaveUp: false }
    this.#members.set(assignment.runnerId, member)
    this.#set(member, { RunnerIdle: {} })
    void this.#launch(member)
  }

  async again (runnerId: string, message: string): Promise<void> {
    const member = this.#members.get(runnerId)
    if (member === undefined || member.gaveUp) return
    this.#waits.get(runnerId)?.abort()
    this.#launches.delete(runnerId)
    this.#parts.log.warn({ ...member.assignment, reason: message }, 'a runner is started anew')
    this.#set(member, idle(this.#parts.clock, message))
    await this.#end(member)
    if (this.#members.get(runnerId) !== member || this.#launches.has(runnerId)) return
    member.supervisor = null
    await this.#launch(member)
  }

  async stop (runnerId: string): Promise<void> {
    const member = this.#members.get(runnerId)
    this.#waits.get(runnerId)?.abort()
    this.#waits.delete(runnerId)
    if (member !== undefined) await this.#end(member)
    this.#launches.delete(runnerId)
    this.#members.delete(runnerId)
    this.#parts.statuses.remove(runnerId)
    this.#parts.onChange()
  }

  get (runnerId: string): Member | undefined { return this.#members.get(runnerId) }
  members (): Member[] { return [...this.#members.values()] }
  status ({ assignment }: Member): RunnerStatus {
    return this.#parts.statuses.get(assignment.runnerId) ?? { RunnerIdle: {} }
  }

  ready (member: Member): boolean {
    return !member.lends && member.supervisor !== null && serves(kindOf(this.status(member)))
  }

  reports (): RunnerReport[] {
    return this.members().map((member) =>
      member.supervisor?.report() ?? reportWithoutProcess(member, this.status(member)))
  }

  async #launch (member: Member): Promise<void> {
    const { assignment, assignment: { runnerId } } = member
    const own = {}
    this.#launches.set(runnerId, own)
    const there = (): boolean =>
      this.#members.get(runnerId) === member && this.#launches.get(runnerId) === own
    try {
      // It may have been stopped while its files were on their way.
      const set = (status: RunnerStatus): void => { this.#set(member, status) }
      if (!await prepareWithRetries(this.#parts, member, this.#waits, set) || !there()) return
      const options = this.#parts.launch(assignment)
      member.card = options.spec.card
      await this.#parts.admit(assignment, options)
      if (!there()) return
      member.supervisor = this.#parts.create({
        ...options,
        onStatus: (status) => { if (there()) this.#set(member, status) },
        onFailed: (failure) => { if (there()) this.#fail(member, failure) }
      })
      member.supervisor.start()
    } catch (error) {
      if (!there()) return
      const errorCode = error instanceof LaunchError ? error.errorCode : 'runner_failed'
      this.#fail(member, { errorMessage: reasonOf(error), errorCode, attempts: 0 })
    }
  }

  async #end ({ assignment: { runnerId }, supervisor }: Member): Promise<void> {
    try {
      await supervisor?.stop()
    } catch (error) {
      this.#parts.log.error({ runnerId, error: reasonOf(error) }, 'the runner did not stop as it should')
    }
  }

  #set (member: Member, status: RunnerStatus): void {
    const { assignment } = member
    if (this.#members.get(assignment.runnerId) !== member) return
    if (this.#parts.statuses.set(assignment.runnerId, status)) this.#parts.onMoved(assignment, status)
    this.#parts.onChange()
  }

  #fail (member: Member, { errorMessage, errorCode, attempts }: RunnerFailure): void {
    if (member.gaveUp || this.#members.get(member.assignment.runnerId) !== member) return
    member.gaveUp = true
    const failure = { errorMessage: errorMessage.slice(0, MESSAGE_CHARS_MAX), errorCode, attempts }
    if (kindOf(this.status(member)) !== 'RunnerFailed') {
      this.#set(member, { RunnerFailed: { errorMessage: failure.errorMessage, errorCode } })
    }
    this.#parts.onFailed(member.assignment, failure)
  }
}

/**
 * Gets what an assignment needs, retrying for ever, since a node or store that is away may come back. A
 * failure of this node itself is also reported, once, so that the instance can move. False when it was
 * stopped meanwhile.
 */
async function prepareWithRetries (
  parts: FleetParts, member: Member, waits: Map<string, AbortController>, set: (status: RunnerStatus) => void
): Promise<boolean> {
  const { clock, log, prepare, onFailed } = parts
  const { assignment } = member
  const { runnerId } = assignment
  const stop = new AbortController()
  waits.set(runnerId, stop)
  const since = new Date(clock.now()).toISOString()
  let waited = false
  const waitsFor = (message: string): void => {
    waited = true
    if (!stop.signal.aborted) set(idle(clock, message))
  }
  for (let tries = 1; !stop.signal.aborted; tries++) {
    try {
      await prepare(assignment, waitsFor)
      if (stop.signal.aborted) return false
      if (tries > 1 || waited) set({ RunnerIdle: {} })
      return true
    } catch (error) {
      if (stop.signal.aborted) return false
      const { reason = 'download_failed' } = error as { reason?: string }
      const message = reasonOf(error).slice(0, MESSAGE_CHARS_MAX)
      const pauseMs = backoffMs(tries, PAUSE, 1)
      const nextTryAt = new Date(clock.now() + pauseMs).toISOString()
      log.warn({ ...assignment, reason, error: message, tries, pauseMs }, 'a runner waits for its files')
      set({ RunnerIdle: { waitsFor: { reason, message, since, tries, nextTryAt } } })
      if (tries === 1 && !SAME_EVERYWHERE.has(reason)) {
        onFailed(assignment, { errorMessage: message, errorCode: 'download_failed', attempts: tries })
      }
      await delay(clock, pauseMs, stop.signal).catch(() => {})
    }
  }
  return false
}

/** The status of a runner that waits for another rank. */
const idle = (clock: Clock, message: string): RunnerStatus =>
  ({ RunnerIdle: { waitsFor: { reason: 'rank_away', message, since: new Date(clock.now()).toISOString() } } })

/** The report of a runner that never became a process. */
function reportWithoutProcess ({ assignment }: Member, status: RunnerStatus): RunnerReport {
  return {
    ...assignment,
    pid: null,
    processAlive: false,
    exitCode: null,
    statusKind: kindOf(status),
    secondsInStatus: 0,
    phase: 'RunnerFailed' in status ? status.RunnerFailed.errorMessage : 'not started',
    restarts: 0,
    flightRecorder: [],
    inProgressTasks: [],
    completedTaskCount: 0,
    secondsSinceForward: null,
    hold: null,
    rssBytes: null,
    slots: 0,
    waitingTasks: 0,
    waitedSeconds: 0,
    admittedTaskCount: 0,
    chunks: { received: 0, dropped: 0, buffered: 0 }
  }
}

/** The statuses of this node's runners: every change in memory, at most two a second in the document. */
export interface RunnerStatuses {
  /** Sets a status. True when it is a new stage of the runner's life, which gets an event. */
  set (runnerId: string, status: RunnerStatus): boolean
  get (runnerId: string): RunnerStatus | undefined
  remove (runnerId: string): void
}

/**
 * A write to the document is kept in its history, and a busy runner changes between ready and running many
 * times a second: such changes, and loading progress, are written at most twice a second.
 */
export function createStatuses (section: Section<RunnerStatus>, clock: Clock): RunnerStatuses {
  const statuses = new Map<string, RunnerStatus>()
  const waiting = new Map<string, () => void>()
  const write = (runnerId: string): void => {
    waiting.get(runnerId)?.()
    waiting.delete(runnerId)
    const status = statuses.get(runnerId)
    if (status !== undefined) section.put(runnerId, status)
  }
  return {
    set (runnerId, status) {
      const moved = movedOn(statuses.get(runnerId), status)
      statuses.set(runnerId, status)
      if (moved) write(runnerId)
      else if (!waiting.has(runnerId)) {
        waiting.set(runnerId, clock.after(STATUS_COALESCE_MS, () => { write(runnerId) }))
      }
      return moved
    },
    get: (runnerId) => statuses.get(runnerId),
    remove (runnerId) {
      waiting.get(runnerId)?.()
      waiting.delete(runnerId)
      statuses.delete(runnerId)
      section.remove(runnerId)
    }
  }
}

function movedOn (before: RunnerStatus | undefined, after: RunnerStatus): boolean {
  if (before === undefined) return true
  const from = kindOf(before)
  const to = kindOf(after)
  return from !== to && !(serves(from) && serves(to))
}
