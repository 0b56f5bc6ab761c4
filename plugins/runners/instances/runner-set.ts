import { backoffMs, delay, type Clock, type Logger, type ModelCard } from '../../../kernel/index.js'
import { LaunchError, reasonOf, type FailureCode } from '../process/errors.js'
import { DEFAULT_LIMITS } from '../process/limits.js'
import { isLoaded, kindOf, serves } from '../process/states.js'
import type { RunnerOptions, Supervisor } from '../process/supervisor.js'
import type { RunnerReport, RunnerStatus } from '../service.js'
import type { Assignment } from './shapes.js'
import type { RunnerStatuses } from './statuses.js'

const MESSAGE_CHARS_MAX = 500
/** Shortest and longest pause in ms between attempts to fetch a model's files. */
const PAUSE = { minMs: 1000, maxMs: 30_000 }
/** Shortest and longest pause in ms before a runner that gave up starts again. */
export const RETRY_PAUSE = { minMs: 60_000, maxMs: 900_000 }
/** Failures that would also happen on any other node, so moving the instance does not help. */
const SAME_EVERYWHERE: ReadonlySet<string> = new Set([
  'store_unreachable', 'store_not_configured', 'model_not_found', 'model_going', 'model_in_use', 'unreachable'
])

export type LaunchOptions = Omit<RunnerOptions, 'onStatus' | 'onFailed'>

export interface Member {
  readonly assignment: Assignment
  /** Null if the supervisor could not be created, e.g. because the card is broken. */
  supervisor: Supervisor | null
  card: ModelCard | null
  /** True for a donor, which serves no tasks but lends memory and compute to another node's runner. */
  readonly isDonor: boolean
  /** True if the runner has used up its start attempts and waits for the next series. */
  gaveUp: boolean
  /** How many times the runner has given up since it last served for a long time. */
  rounds: number
  /** Monotonic time in ms at which the runner last began to serve; null while it does not serve. */
  readyAt: number | null
  /** Monotonic time in ms at which the model was loaded; null while it is not in memory. */
  loadedAt: number | null
  /** Monotonic time in ms at which its process last started; 0 before that. */
  startedAt: number
}

export interface RunnerFailure { errorMessage: string, errorCode: FailureCode, attempts: number }

export interface FleetParts {
  clock: Clock
  log: Logger
  statuses: RunnerStatuses
  create (options: RunnerOptions): Supervisor
  /**
   * Fetches the files and waits for the donors of an assignment; undefined if it needs neither. Calls `waits`
   * with the reason for waiting.
   */
  prepare (assignment: Assignment, waits: (message: string) => void): Promise<unknown> | undefined
  isDonor (assignment: Assignment): boolean
  /** The options to run an assignment. Throws if it cannot run here. */
  launch (assignment: Assignment): LaunchOptions
  /** Rejects if the runner must not start now, e.g. for lack of memory. */
  admit (assignment: Assignment, options: LaunchOptions): Promise<void>
  onMoved (assignment: Assignment, status: RunnerStatus): void
  onFailed (assignment: Assignment, failure: RunnerFailure): void
  onChange (): void
}

export class RunnerSet {
  readonly #parts: FleetParts
  readonly #members = new Map<string, Member>()
  /** By runner id, the controller that aborts its newest launch; an aborted launch's events are ignored. */
  readonly #launches = new Map<string, AbortController>()

  constructor (parts: FleetParts) { this.#parts = parts }

  start (assignment: Assignment): void {
    if (this.#members.has(assignment.runnerId)) return
    const isDonor = this.#parts.isDonor(assignment)
    const member: Member = {
      assignment, supervisor: null, card: null, isDonor, gaveUp: false, rounds: 0, readyAt: null,
      loadedAt: null, startedAt: 0
    }
    this.#members.set(assignment.runnerId, member)
    this.#set(member, { RunnerIdle: {} })
    void this.#launch(member)
  }

  /** Restarts a runner and prepares its files and donors again; its status shows `message` until then. */
  async again (runnerId: string, message: string): Promise<void> {
    const member = this.#members.get(runnerId)
    if (member === undefined || member.gaveUp) return
    this.#parts.log.warn({ ...member.assignment, reason: message }, 'restarting a runner')
    await this.#relaunch(member, waitsForRank(this.#parts.clock, message))
  }

  async #relaunch (member: Member, status: RunnerStatus): Promise<void> {
    const { runnerId } = member.assignment
    this.#endLaunch(runnerId)
    this.#set(member, status)
    await this.#end(member)
    if (this.#members.get(runnerId) !== member || this.#launches.has(runnerId)) return
    member.supervisor = null
    await this.#launch(member)
  }

  async stop (runnerId: string): Promise<void> {
    const member = this.#members.get(runnerId)
    // Abort the launch after the process has ended, because statuses from an aborted launch are ignored.
    if (member?.supervisor == null) this.#endLaunch(runnerId)
    else await this.#end(member)
    this.#endLaunch(runnerId)
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
    return !member.isDonor && member.supervisor !== null && serves(kindOf(this.status(member)))
  }

  reports (): RunnerReport[] {
    return this.members().map((member) =>
      member.supervisor?.report() ?? reportWithoutProcess(member, this.status(member)))
  }

  /** Prepares files and donors, builds the options, checks memory, and starts the process. */
  async #launch (member: Member): Promise<void> {
    const { assignment } = member
    const launch = new AbortController()
    const { signal } = launch
    this.#launches.set(assignment.runnerId, launch)
    try {
      await this.#prepare(member, signal)
      // The runner may have been stopped during the download.
      if (signal.aborted) return
      const options = this.#parts.launch(assignment)
      member.card = options.spec.card
      await this.#parts.admit(assignment, options)
      if (signal.aborted) return
      member.supervisor = this.#parts.create({
        ...options, onStatus: (status) => { if (!signal.aborted) this.#set(member, status) },
        onFailed: (failure) => { if (!signal.aborted) this.#fail(member, failure) }
      })
      member.supervisor.start()
    } catch (error) {
      if (signal.aborted) return
      const errorCode = error instanceof LaunchError ? error.errorCode : 'runner_failed'
      this.#fail(member, { errorMessage: reasonOf(error), errorCode, attempts: 0 })
    }
  }

  /**
   * Prepares an assignment and retries without limit, because a lost node or store may come back. A failure
   * of this node itself is reported once, so that the instance can move to another node.
   */
  async #prepare (member: Member, signal: AbortSignal): Promise<void> {
    const { clock, log, prepare, onFailed } = this.#parts
    const { assignment } = member
    const since = new Date(clock.now()).toISOString()
    const set = (status: RunnerStatus): void => { if (!signal.aborted) this.#set(member, status) }
    let waited = false
    const waits = (message: string): void => {
      waited = true
      set(waitsForRank(clock, message))
    }
    for (let tries = 1; !signal.aborted; tries++) {
      try {
        await prepare(assignment, waits)
        if (waited) set({ RunnerIdle: {} })
        return
      } catch (error) {
        if (signal.aborted) return
        waited = true
        const { reason = 'download_failed' } = error as { reason?: string }
        const message = reasonOf(error).slice(0, MESSAGE_CHARS_MAX)
        const pauseMs = backoffMs(tries, PAUSE, 1)
        const nextTryAt = new Date(clock.now() + pauseMs).toISOString()
        log.warn({ ...assignment, reason, error: message, tries, pauseMs }, 'a runner waits for its files')
        set({ RunnerIdle: { waitsFor: { reason, message, since, tries, nextTryAt } } })
        if (tries === 1 && !SAME_EVERYWHERE.has(reason)) {
          onFailed(assignment, { errorMessage: message, errorCode: 'download_failed', attempts: tries })
        }
        await delay(clock, pauseMs, signal).catch(() => {})
      }
    }
  }

  #endLaunch (runnerId: string): void {
    this.#launches.get(runnerId)?.abort()
    this.#launches.delete(runnerId)
  }

  async #end ({ assignment: { runnerId }, supervisor }: Member): Promise<void> {
    try {
      await supervisor?.stop()
    } catch (error) {
      this.#parts.log.error({ runnerId, error: reasonOf(error) }, 'the runner did not stop cleanly')
    }
  }

  #set (member: Member, status: RunnerStatus): void {
    const { assignment } = member
    if (this.#members.get(assignment.runnerId) !== member) return
    const now = this.#parts.clock.mono()
    if ('RunnerConnecting' in status) member.startedAt = now
    member.loadedAt = isLoaded(kindOf(status)) ? member.loadedAt ?? now : null
    if (serves(kindOf(status))) member.readyAt ??= now
    else {
      if (now - (member.readyAt ?? now) >= DEFAULT_LIMITS.readyClearMs) member.rounds = 0
      member.readyAt = null
    }
    if (this.#parts.statuses.set(assignment.runnerId, status)) this.#parts.onMoved(assignment, status)
    this.#parts.onChange()
  }

  #fail (member: Member, { errorMessage, errorCode, attempts }: RunnerFailure): void {
    if (member.gaveUp) return
    member.gaveUp = true
    const { clock, onFailed } = this.#parts
    const failure = { errorMessage: errorMessage.slice(0, MESSAGE_CHARS_MAX), errorCode, attempts }
    const pauseMs = backoffMs(++member.rounds, RETRY_PAUSE, 1)
    const nextTryAt = new Date(clock.now() + pauseMs).toISOString()
    this.#set(member, { RunnerFailed: { errorMessage: failure.errorMessage, errorCode, nextTryAt } })
    const cancel = clock.after(pauseMs, () => {
      member.gaveUp = false
      void this.#relaunch(member, { RunnerIdle: {} })
    })
    this.#launches.get(member.assignment.runnerId)?.signal.addEventListener('abort', cancel)
    onFailed(member.assignment, failure)
  }
}

const waitsForRank = (clock: Clock, message: string): RunnerStatus =>
  ({ RunnerIdle: { waitsFor: { reason: 'rank_away', message, since: new Date(clock.now()).toISOString() } } })

function reportWithoutProcess ({ assignment }: Member, status: RunnerStatus): RunnerReport {
  return {
    ...assignment, pid: null, processAlive: false, exitCode: null, statusKind: kindOf(status),
    secondsInStatus: 0,
    phase: 'RunnerFailed' in status ? status.RunnerFailed.errorMessage : 'not started', restarts: 0,
    flightRecorder: [], inProgressTasks: [], completedTaskCount: 0, secondsSinceForward: null,
    hold: null, rssBytes: null, estimatedBytes: null, slots: 0, slotsTaken: 0, waitingTasks: 0,
    waitedSeconds: 0, admittedTaskCount: 0, chunks: { received: 0, dropped: 0, buffered: 0 }
  }
}
