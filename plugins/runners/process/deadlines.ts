import type { RunnerLimits } from './limits.js'
import { ProtocolError, type UnloadableCode } from './errors.js'
import type { WorkMessage } from './messages.js'

export type Phase = 'connecting' | 'loading' | 'warmup' | 'serving'

/** State of a runner at one moment, for the deadline check. Times are monotonic ms. */
export interface Watch {
  readonly phase: Phase
  /** Start of the phase; while loading, the time of the last progress. */
  readonly since: number
  readonly modelBytes: number
  readonly overdueWork: Overdue | null
  /** Time at which the oldest cancelled task still in the runner was cancelled. */
  readonly cancelledSince: number | null
  /** Start of the current period without announced work; the current time while work is announced. */
  readonly quietSince: number
}

/** A deadline that has passed. `key` identifies the cause, so that two checks in a row can be compared. */
export interface PassedDeadline { readonly key: string, readonly message: string, readonly wedged: boolean }

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`

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
      `${seconds(work.runningMs)}; the limit is ${seconds(work.allowedMs)}`)
  }
  // A cancelled task may be waiting for announced work, which has its own deadline.
  const { cancelledSince, quietSince } = watch
  if (cancelledSince !== null && nowMs - Math.max(cancelledSince, quietSince) > limits.cancelMs) {
    return passed('cancel', `a cancelled task was still running ${seconds(limits.cancelMs)} later, ` +
      'without announced work')
  }
  return null
}

const passed = (key: string, message: string): PassedDeadline => ({ key, message, wedged: false })

function warmupMessage (limits: Pick<RunnerLimits, 'warmupMs'>): string {
  return `warmup did not finish within ${seconds(limits.warmupMs)}; ` +
    'SVC_WARMUP_DEADLINE_SECONDS sets the deadline'
}

/**
 * True if a process that ended by SIGKILL during warmup was killed by its own watchdog. The node's clock
 * starts a little later than the runner's, so 90% of the deadline is enough.
 */
export function endedByWarmupWatchdog (
  watch: Pick<Watch, 'phase' | 'since'>, signal: string | null, limits: RunnerLimits, nowMs: number
): boolean {
  return watch.phase === 'warmup' && signal === 'SIGKILL' && nowMs - watch.since >= 0.9 * limits.warmupMs
}

export interface ExitFacts {
  readonly stopping: boolean
  readonly failure: Pick<ProcessEnd, 'wedged' | 'unloadable'> & { readonly message: string } | null
  readonly phase: Phase
  readonly since: number
  readonly readyAt: number | null
  readonly exit: { readonly code: number | null, readonly signal: string | null } | null
}

/** How a runner process ended. `message` is null after an orderly stop; `readyMs`: how long it was ready. */
export interface ProcessEnd {
  message: string | null
  wedged: boolean
  full?: boolean
  /** Set if the engine could not load the model's files. */
  unloadable?: UnloadableCode | undefined
  exitCode: number | null
  readyMs: number
}

/** Describes why a runner process ended: a requested stop, a kill by the node, or the process's own exit. */
export function describeEnd (ending: ExitFacts, limits: RunnerLimits, nowMs: number): ProcessEnd {
  const { code, signal } = ending.exit ?? { code: null, signal: null }
  const ended = { exitCode: code, readyMs: ending.readyAt === null ? 0 : nowMs - ending.readyAt }
  if (ending.stopping) return { ...ended, message: null, wedged: false }
  if (ending.failure !== null) return { ...ended, ...ending.failure }
  if (endedByWarmupWatchdog(ending, signal, limits, nowMs)) {
    return { ...ended, message: warmupMessage(limits), wedged: true }
  }
  const cause = signal === null ? `exited with code ${code}` : `was ended by ${signal}`
  // SIGKILL does not mean that the files are broken: the kernel also sends it when memory runs out.
  const unloadable = ending.phase === 'loading' && signal !== 'SIGKILL' ? 'load_failed' : undefined
  return { ...ended, message: `the runner process ${cause} while ${ending.phase}`, wedged: false, unloadable }
}

type WorkLimits = Pick<RunnerLimits, 'workMinMs' | 'workFactor'>

/** Weight of the newest measurement in the running mean of ms per unit. */
const NEWEST_SHARE = 0.3
/** Maximum open announcements; a runner that exceeds it fails to end its work and violates the protocol. */
const MAX_OPEN = 1_024
/** Limit on labels with their own measurement; an engine has only a handful. */
const MAX_LABELS = 256

interface Overdue { id: number, label: string, units: number, runningMs: number, allowedMs: number }

/** Milliseconds allowed for announced work: max(min, factor x measured time per unit x units). */
export function allowedMs (units: number, msPerUnit: number, limits: WorkLimits): number {
  return Math.max(limits.workMinMs, limits.workFactor * msPerUnit * units)
}

/** Milliseconds allowed for loading without progress: max(min, bytes / rate). */
export function loadingMs (
  bytes: number, limits: Pick<RunnerLimits, 'loadMinMs' | 'loadBytesPerSecond'>
): number {
  return Math.max(limits.loadMinMs, bytes / limits.loadBytesPerSecond * 1000)
}

/** Work that a runner has announced, and the measured times per unit. Times are monotonic ms. */
export class AnnouncedWork {
  readonly #limits: WorkLimits
  readonly #open = new Map<number, { label: string, units: number, since: number }>()
  readonly #msPerUnit = new Map<string, number>()

  #announcedMs = 0

  constructor (limits: WorkLimits) { this.#limits = limits }

  get busy (): boolean { return this.#open.size > 0 }

  /** Start of the current period without announced work; `nowMs` while work is announced. */
  quietSince (nowMs: number): number { return this.busy ? nowMs : this.#announcedMs }

  /** Applies one announcement. Throws ProtocolError if too much work is open. */
  apply (message: WorkMessage, nowMs: number): void {
    this.#announcedMs = nowMs
    for (const id of message.closed) this.#open.delete(id)
    for (const { label, units, ms } of message.measured) this.#measure(label, units, ms)
    for (const { id, label, units } of message.open) this.#open.set(id, { label, units, since: nowMs })
    if (this.#open.size > MAX_OPEN) {
      throw new ProtocolError(`more than ${MAX_OPEN} pieces of work open at once`)
    }
  }

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
