import type { Clock, Logger, ModelCard } from '../../kernel/index.js'
import type { StatusBoard } from './board.js'
import { LaunchError } from './failures.js'
import type { FailureCode } from './failures.js'
import { MESSAGE_CHARS_MAX } from './limits.js'
import { reasonOf } from './process/errors.js'
import { kindOf, serves } from './process/states.js'
import type { RunnerOptions, Supervisor } from './process/supervisor.js'
import type { RunnerReport, RunnerStatus } from './service.js'
import type { Assignment } from './shapes.js'

/** What a runner needs to be made, without the callbacks. */
export type LaunchOptions = Omit<RunnerOptions, 'onStatus' | 'onFailed'>

/** A runner of this node. */
export interface Member {
  readonly assignment: Assignment
  /** Null when it could not even be made, e.g. because the card is broken. */
  supervisor: Supervisor | null
  card: ModelCard | null
  /** It serves no tasks of the model: it lends memory and work to the runner of another node. */
  readonly lends: boolean
  /** Monotonic ms of the last chunk that a real inference gave; null when none did. */
  forwardMono: number | null
  /** Its attempts are used up. */
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
  board: StatusBoard
  create (options: RunnerOptions): Supervisor
  /** Brings what an assignment needs to this node; undefined when nothing is missing. */
  prepare (assignment: Assignment): Promise<unknown> | undefined
  /** Whether an assignment lends to another node's. */
  lends (assignment: Assignment): boolean
  /** Says how to run an assignment. Throws when that is impossible. */
  launch (assignment: Assignment): LaunchOptions
  /** Rejects when it cannot be run now, e.g. for lack of memory. */
  admit (assignment: Assignment, options: LaunchOptions): Promise<void>
  /** The runner moved on in its lifecycle. */
  onMoved (assignment: Assignment, status: RunnerStatus): void
  onFailed (assignment: Assignment, failure: RunnerFailure): void
  /** Anything changed that readiness or routing depends on. */
  onChange (): void
}

/** The runners of this node. */
export interface Fleet {
  start (assignment: Assignment): void
  /** Resolves when the process is gone. */
  stop (runnerId: string): Promise<void>
  get (runnerId: string): Member | undefined
  members (): Member[]
  status (member: Member): RunnerStatus
  /** True when the runner accepts tasks. */
  ready (member: Member): boolean
  reports (): RunnerReport[]
}

export function createFleet (parts: FleetParts): Fleet {
  const members = new Map<string, Member>()
  const statusOf = ({ assignment }: Member): RunnerStatus =>
    parts.board.get(assignment.runnerId) ?? { RunnerIdle: {} }
  const set = (member: Member, status: RunnerStatus): void => {
    if (members.get(member.assignment.runnerId) !== member) return
    if (parts.board.set(member.assignment.runnerId, status)) parts.onMoved(member.assignment, status)
    parts.onChange()
  }
  const fail = (member: Member, { errorMessage, errorCode, attempts }: RunnerFailure): void => {
    if (member.gaveUp || members.get(member.assignment.runnerId) !== member) return
    member.gaveUp = true
    const failure = { errorMessage: errorMessage.slice(0, MESSAGE_CHARS_MAX), errorCode, attempts }
    if (kindOf(statusOf(member)) !== 'RunnerFailed') {
      set(member, { RunnerFailed: { errorMessage: failure.errorMessage, errorCode } })
    }
    parts.onFailed(member.assignment, failure)
  }
  const launch = async (member: Member): Promise<void> => {
    const there = (): boolean => members.get(member.assignment.runnerId) === member
    try {
      await bring(parts, member.assignment)
      // It may have been stopped while its files were on their way.
      if (!there()) return
      const options = parts.launch(member.assignment)
      member.card = options.spec.card
      await parts.admit(member.assignment, options)
      if (!there()) return
      member.supervisor = parts.create({
        ...options,
        onStatus: (status) => { set(member, status) },
        onFailed: (failure) => { fail(member, failure) }
      })
      member.supervisor.start()
    } catch (error) {
      const errorCode = error instanceof LaunchError ? error.errorCode : 'runner_failed'
      fail(member, { errorMessage: reasonOf(error), errorCode, attempts: 0 })
    }
  }
  return {
    start (assignment) {
      if (members.has(assignment.runnerId)) return
      const lends = parts.lends(assignment)
      const member: Member =
        { assignment, supervisor: null, card: null, lends, forwardMono: null, gaveUp: false }
      members.set(assignment.runnerId, member)
      set(member, { RunnerIdle: {} })
      void launch(member)
    },
    async stop (runnerId) {
      const member = members.get(runnerId)
      try {
        await member?.supervisor?.stop()
      } catch (error) {
        parts.log.error({ runnerId, error: reasonOf(error) }, 'the runner did not stop as it should')
      }
      members.delete(runnerId)
      parts.board.remove(runnerId)
      parts.onChange()
    },
    get: (runnerId) => members.get(runnerId),
    members: () => [...members.values()],
    status: statusOf,
    ready: (member) => !member.lends && member.supervisor !== null && serves(kindOf(statusOf(member))),
    reports: () =>
      [...members.values()].map(
        (member) => member.supervisor?.report() ?? stillborn(member, statusOf(member))
      )
  }
}

/** Brings what an assignment needs. Throws a LaunchError. */
async function bring ({ prepare }: Pick<FleetParts, 'prepare'>, assignment: Assignment): Promise<void> {
  try {
    await prepare(assignment)
  } catch (error) {
    throw new LaunchError('download_failed', reasonOf(error))
  }
}

/** The report of a runner that never became a process. */
function stillborn ({ assignment }: Member, status: RunnerStatus): RunnerReport {
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
    rssBytes: null,
    slots: 0,
    waitingTasks: 0,
    waitedSeconds: 0,
    admittedTaskCount: 0,
    chunks: { received: 0, dropped: 0, buffered: 0 }
  }
}
