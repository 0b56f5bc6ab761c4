import type { RunnerLimits } from './limits.js'
import { ProtocolError } from './errors.js'
import type { UnloadableCode } from './errors.js'
import type { WorkMessage } from './protocol.js'

/** Where a runner process is in its life, as deadlines see it. */
export type Phase = 'connecting' | 'loading' | 'warmup' | 'serving'

/** What the node knows of a runner at one moment. Times are monotonic milliseconds. */
export interface Watch {
  readonly phase: Phase
  /** Start of the phase; while loading, of the last progress. */
  readonly since: number
  readonly modelBytes: number
  readonly overdueWork: Overdue | null
  /** Oldest task that was cancelled and has not ended in the runner. */
  readonly cancelledSince: number | null
  /** Since when the runner has had no announced work; now while it has. */
  readonly quietSince: number
}

/** A passed deadline. `key` is the same for the same cause, so that two looks can agree on it. */
export interface PassedDeadline { readonly key: string, readonly message: string, readonly wedged: boolean }

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`

/** The deadline a runner has passed, if any. */
export function passedDeadline (watch: Watch, limits: RunnerLimits, nowMs: number): PassedDeadline | null {
  const elapsed = nowMs - watch.since
  switch (watch.phase) {
    case 'connecting': return elapsed <= limits.firstReportMs
      ? null
      : passed('first report', `the runner did not report within ${seconds(limits.firstReportMs)}`)
    case 'loading': {
      const allowed = loadingMs(watch.modelBytes, limits)
      return elapsed <= allowed
        ? null
        : passed('loading', `loading ${watch.modelBytes} bytes made no progress for ${seconds(allowed)}`)
    }
    case 'warmup': return elapsed <= limits.warmupMs + limits.warmupGraceMs
      ? null
      : { ...passed('warmup', warmupMessage(limits)), wedged: true }
    case 'serving': return servingDeadline(watch, limits, nowMs)
  }
}

function servingDeadline (watch: Watch, limits: RunnerLimits, nowMs: number): PassedDeadline | null {
  const work = watch.overdueWork
  if (work !== null) {
    return passed(`work ${work.id}`, `work "${work.label}" of ${work.units} units has been running for ` +
      `${seconds(work.runningMs)}, allowed are ${seconds(work.allowedMs)}`)
  }
  // A cancelled task may wait for announced work, which has a deadline of its own.
  const { cancelledSince, quietSince } = watch
  if (cancelledSince !== null && nowMs - Math.max(cancelledSince, quietSince) > limits.cancelMs) {
    return passed('cancel', `a cancelled task was still running ${seconds(limits.cancelMs)} later, ` +
      'without announced work')
  }
  return null
}

const passed = (key: string, message: string): PassedDeadline => ({ key, message, wedged: false })

/** The message of a warmup overrun, wherever it is reported. */
function warmupMessage (limits: Pick<RunnerLimits, 'warmupMs'>): string {
  return `warmup did not finish within ${seconds(limits.warmupMs)}; ` +
    'SVC_WARMUP_DEADLINE_SECONDS sets the deadline'
}

/**
 * True when a process that ended by SIGKILL during its warmup was ended by its own watchdog: the node's
 * clock starts a little later than the runner's, so most of the deadline counts as all of it.
 */
export function endedByWarmupWatchdog (
  watch: Pick<Watch, 'phase' | 'since'>, signal: string | null, limits: RunnerLimits, nowMs: number
): boolean {
  return watch.phase === 'warmup' && signal === 'SIGKILL' && nowMs - watch.since >= 0.9 * limits.warmupMs
}

/** What is known of a process when it has ended. Times are monotonic milliseconds. */
export interface ExitFacts {
  readonly stopping: boolean
  readonly failure: Pick<ProcessEnd, 'wedged' | 'unloadable'> & { readonly message: string } | null
  readonly phase: Phase
  readonly since: number
  readonly readyAt: number | null
  readonly exit: { readonly code: number | null, readonly signal: string | null } | null
}

/** How a runner process ended. `message` is null after an orderly stop, `readyMs` how long it was ready. */
export interface ProcessEnd {
  message: string | null
  wedged: boolean
  full?: boolean
  /** The engine failed at the files of the model. */
  unloadable?: UnloadableCode | undefined
  exitCode: number | null
  readyMs: number
}

/** How the end of a runner process is reported: as asked for, by the node's reason, or by its own exit. */
export function describeEnd (ending: ExitFacts, limits: RunnerLimits, nowMs: number): ProcessEnd {
  const { code, signal } = ending.exit ?? { code: null, signal: null }
  const ended = { exitCode: code, readyMs: ending.readyAt === null ? 0 : nowMs - ending.readyAt }
  if (ending.stopping) return { ...ended, message: null, wedged: false }
  if (ending.failure !== null) return { ...ended, ...ending.failure }
  if (endedByWarmupWatchdog(ending, signal, limits, nowMs)) {
    return { ...ended, message: warmupMessage(limits), wedged: true }
  }
  const cause = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
  // SIGKILL is the system's, for want of memory.
  const unloadable = ending.phase === 'loading' && signal !== 'SIGKILL' ? 'load_failed' : undefined
  return { ...ended, message: `the runner process ${cause} while ${ending.phase}`, wedged: false, unloadable }
}

type WorkLimits = Pick<RunnerLimits, 'workMinMs' | 'workFactor'>

/** Weight of the newest measurement in the running mean of the time per unit. */
const NEWEST_SHARE = 0.3
/** Bound on open work; a runner above it never closes anything. */
const MAX_OPEN = 1_024
/** Labels with a measurement of their own; an engine has a handful. */
const MAX_LABELS = 256

/** Work that has been running for longer than its size explains. */
interface Overdue { id: number, label: string, units: number, runningMs: number, allowedMs: number }

/** Allowed time for announced work: max(min, factor x measured time per unit x units). */
export function allowedMs (units: number, msPerUnit: number, limits: WorkLimits): number {
  return Math.max(limits.workMinMs, limits.workFactor * msPerUnit * units)
}

/** Allowed time for loading without progress: max(min, bytes / rate). */
export function loadingMs (
  bytes: number, limits: Pick<RunnerLimits, 'loadMinMs' | 'loadBytesPerSecond'>
): number {
  return Math.max(limits.loadMinMs, bytes / limits.loadBytesPerSecond * 1000)
}

/** The work a runner has announced, with measured times per unit. Times are monotonic milliseconds. */
export class AnnouncedWork {
  readonly #limits: WorkLimits
  readonly #open = new Map<number, { label: string, units: number, since: number }>()
  readonly #msPerUnit = new Map<string, number>()

  #heardMs = 0

  constructor (limits: WorkLimits) { this.#limits = limits }

  get busy (): boolean { return this.#open.size > 0 }

  /** Since when no work has been announced; `nowMs` while some is open. */
  quietSince (nowMs: number): number { return this.busy ? nowMs : this.#heardMs }

  /** Applies one announcement. Throws ProtocolError when the runner opens more than it can mean. */
  apply (message: WorkMessage, nowMs: number): void {
    this.#heardMs = nowMs
    for (const id of message.closed) this.#open.delete(id)
    for (const { label, units, ms } of message.measured) this.#measure(label, units, ms)
    for (const { id, label, units } of message.open) this.#open.set(id, { label, units, since: nowMs })
    if (this.#open.size > MAX_OPEN) {
      throw new ProtocolError(`more than ${MAX_OPEN} pieces of work open at once`)
    }
  }

  /** The first piece of work past its time, if any. */
  overdue (nowMs: number): Overdue | null {
    for (const [id, { label, units, since }] of this.#open) {
      const runningMs = nowMs - since
      const allowed = allowedMs(units, this.#msPerUnit.get(label) ?? 0, this.#limits)
      if (runningMs > allowed) return { id, label, units, runningMs, allowedMs: allowed }
    }
    return null
  }

  #measure (label: string, units: number, ms: number): void {
    if (units <= 0) return
    const known = this.#msPerUnit.get(label)
    if (known === undefined && this.#msPerUnit.size >= MAX_LABELS) return
    const fresh = ms / units
    this.#msPerUnit.set(label, known === undefined ? fresh : known + NEWEST_SHARE * (fresh - known))
  }
}
