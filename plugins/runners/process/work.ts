import { ProtocolError } from './errors.js'
import type { RunnerLimits } from './limits.js'
import type { WorkMessage } from './messages.js'

type WorkLimits = Pick<RunnerLimits, 'workMinMs' | 'workFactor'>

/** Weight of the newest measurement in the running mean of the time per unit. */
const NEWEST_SHARE = 0.3
/** More open work than this is a runner that never closes anything. */
const MAX_OPEN = 1_024
/** Labels with a measurement of their own; an engine has a handful. */
const MAX_LABELS = 256

/** Work that has been running for longer than its size explains. */
export interface Overdue { id: number, label: string, units: number, runningMs: number, allowedMs: number }

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

/** The node's account of what its runner says it is doing. Times are monotonic milliseconds. */
export class WorkLedger {
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
