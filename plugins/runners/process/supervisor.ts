import { delay, SvcError, timed, toSvcError, type Trace } from '../../../kernel/index.js'
import { Admission, type Release } from '../../capabilities/service.js'
import { afterFailure, CLOSED, type BreakerState } from './breaker.js'
import { cancelled, lost, NOT_STARTED, reasonOf, RunnerError } from './errors.js'
import { resolveLimits, type RunnerLimits } from './limits.js'
import { RunnerRecord } from './record.js'
import { RunnerProcess } from './runner-process.js'
import { kindOf, mayFollow, serves } from './states.js'
import type { EngineChunk, EngineTask } from '../../../kernel/api/engine.js'
import type { TaskChannel } from './channels.js'
import type { ProcessEnd } from './deadlines.js'
import type { RunnerOptions } from './options.js'
import type { RunnerReport, RunnerStatus } from '../service.js'

export { RunnerError } from './errors.js'
export { DEFAULT_LIMITS, resolveLimits } from './limits.js'
export { sweepOrphans } from './pidfile.js'
export type { RunnerLimits } from './limits.js'
export type { RunnerOptions } from './options.js'

const DEFAULT_CONCURRENT = 1
const DEFAULT_QUEUED = 8
/** Milliseconds between two chunks with the queue position of a waiting task. */
const TELL_MS = 1_000
/** Caller id for the node's own tasks, such as its canary. */
const NODE = 'node'

/** Creates a stopped supervisor. */
export const createSupervisor = (options: RunnerOptions): Supervisor => new RunnerSupervisor(options)

export type Supervisor = Pick<RunnerSupervisor, 'status' | 'start' | 'open' | 'report' | 'stop'>

class RunnerSupervisor {
  readonly #options: RunnerOptions
  readonly #who: { runnerId: string, modelId: string }
  readonly #limits: RunnerLimits
  readonly #admission: Admission
  readonly #record: RunnerRecord
  #status: RunnerStatus = { RunnerIdle: {} }
  #statusSince: number
  #breaker: BreakerState = CLOSED
  #process: RunnerProcess | null = null
  #started = false
  #cancelRestart: (() => void) | null = null
  #stopped: Promise<void> | null = null

  constructor (options: RunnerOptions) {
    const { runnerId, spec: { card: { modelId } }, clock } = options
    const { maxConcurrent: concurrency = DEFAULT_CONCURRENT, maxQueued: queue = DEFAULT_QUEUED } = options
    this.#options = options
    this.#who = { runnerId, modelId }
    this.#limits = resolveLimits(options.limits)
    this.#admission = new Admission(`The runner of ${modelId}`, clock, { concurrency, queue })
    this.#record = new RunnerRecord(clock, this.#limits.flightEntries)
    this.#statusSince = clock.mono()
  }

  get status (): RunnerStatus { return this.#status }

  /** Starts the process without waiting for it. Later calls do nothing. */
  start (): void {
    if (this.#started || this.#stopped !== null) return
    this.#started = true
    this.#launch()
  }

  /**
   * Runs a task, which starts with the first pull. Waiting tasks take turns by `callerId`, by default that of
   * the node. With a trace the runner records its spans. A waiting task gets chunks with its position in the
   * queue; `admitted` is called when the wait ends. Throws RunnerError: `overloaded`
   * (details.retryAfterSeconds), `instance_lost`, `cancelled` (the signal aborted), `timeout`,
   * `provider_error`, or the engine's own reason.
   */
  async * open (
    taskId: string, task: EngineTask, signal: AbortSignal,
    { callerId = NODE, trace, admitted }: { callerId?: string, trace?: Trace, admitted?: () => void } = {}
  ): AsyncGenerator<EngineChunk, void> {
    this.#mustServe()
    const since = this.#options.clock.mono()
    const place = yield * this.#wait(task, signal, callerId, trace)
    this.#record.waitedMs += this.#options.clock.mono() - since
    this.#record.admittedTasks += 1
    admitted?.()
    const { process, channel } = this.#handOver({ taskId, task, trace }, signal, place)
    const cancel = (): void => { process.tasks.cancel(channel) }
    signal.addEventListener('abort', cancel, { once: true })
    try {
      for (;;) {
        const chunk = await channel.next(process.mono)
        if (chunk === null) return
        yield chunk
      }
    } finally {
      signal.removeEventListener('abort', cancel)
      cancel()
    }
  }

  report (): RunnerReport {
    const { clock, runnerId, instanceId, spec, maxConcurrent = DEFAULT_CONCURRENT, estimatedBytes = null } =
      this.#options
    const process = this.#process
    const record = this.#record
    const seconds = (since: number): number => (clock.mono() - since) / 1000
    return {
      runnerId,
      instanceId,
      modelId: spec.card.modelId,
      pid: process?.pid ?? null,
      processAlive: process !== null && !process.exited,
      exitCode: record.exitCode,
      statusKind: kindOf(this.#status),
      secondsInStatus: seconds(this.#statusSince),
      phase: this.#phase(),
      restarts: record.restarts,
      flightRecorder: record.entries(),
      inProgressTasks: process?.tasks.taskIds ?? [],
      completedTaskCount: record.completedTasks,
      secondsSinceForward: record.forwardMono === null ? null : seconds(record.forwardMono),
      rssBytes: process?.rssBytes ?? null,
      estimatedBytes,
      hold: process?.hold ?? null,
      slots: maxConcurrent,
      slotsTaken: this.#admission.active,
      waitingTasks: this.#admission.waiting,
      waitedSeconds: record.waitedMs / 1000,
      admittedTaskCount: record.admittedTasks,
      chunks: {
        received: record.chunksReceived, dropped: record.chunksDropped, buffered: process?.tasks.buffered ?? 0
      }
    }
  }

  /** Ends the process permanently; resolves when it has ended. */
  stop (): Promise<void> {
    this.#stopped ??= this.#shutDown()
    return this.#stopped
  }

  async #shutDown (): Promise<void> {
    this.#move({ RunnerShuttingDown: {} })
    this.#cancelRestart?.()
    this.#admission.refuseAll(new RunnerError('instance_lost', 'The instance was stopped.',
      { ...NOT_STARTED }))
    await this.#process?.stop()
    this.#move({ RunnerShutdown: {} })
  }

  /** Waits for slots; a text task gets its queue position during the wait. Throws like `#enter`. */
  async * #wait (
    task: EngineTask, signal: AbortSignal, callerId: string, trace: Trace | undefined
  ): AsyncGenerator<EngineChunk, Release> {
    const { clock, maxConcurrent: slots = DEFAULT_CONCURRENT } = this.#options
    const left = new AbortController()
    const own = AbortSignal.any([signal, left.signal])
    const over = new AbortController()
    const entering = timed(trace, 'runner queue', 'queue', () => this.#enter(callerId, own, slotsTaken(task)))
      .finally(() => { over.abort() })
    entering.catch(() => {})
    let [reported, release]: [number, Release | undefined] = [0, undefined]
    try {
      while (isAnswer(task) && this.#admission.placeOf(own) > 0) {
        await delay(clock, TELL_MS, over.signal).catch(() => {})
        const place = this.#admission.placeOf(own)
        if (place > 0 && place !== reported) yield { payload: { choices: [], queue: { place, slots } } }
        reported = place
      }
      release = await entering
      return release
    } finally {
      // The reader closed the stream during the wait.
      if (release === undefined) {
        left.abort()
        entering.then((late) => { late(false) }, () => {})
      }
    }
  }

  /** Waits for admission. Throws RunnerError `overloaded`, `cancelled`, `instance_lost`. */
  async #enter (callerId: string, signal: AbortSignal, slots: number): Promise<Release> {
    try {
      return await this.#admission.enter(callerId, signal, slots)
    } catch (error) {
      if (signal.aborted) throw cancelled()
      throw error instanceof SvcError ? new RunnerError(error.reason, error.message, error.details) : error
    }
  }

  /** Hands an admitted task to the process, unless the task or the process ended during the wait. */
  #handOver (
    { taskId, task, trace }: { taskId: string, task: EngineTask, trace: Trace | undefined },
    signal: AbortSignal, place: Release
  ): { process: RunnerProcess, channel: TaskChannel } {
    try {
      const process = this.#mustServe()
      if (signal.aborted) throw cancelled()
      const channel = process.tasks.open(taskId, task, (served) => {
        place(served)
        if (process.tasks.size === 0) this.#move({ RunnerReady: {} })
      }, trace)
      this.#move({ RunnerRunning: {} })
      return { process, channel }
    } catch (error) {
      place(false)
      throw error
    }
  }

  #mustServe (): RunnerProcess {
    const kind = kindOf(this.#status)
    if (this.#process?.usable === true && serves(kind)) return this.#process
    const { modelId } = this.#options.spec.card
    throw new RunnerError('instance_lost',
      `The runner of ${modelId} serves no tasks now: ${this.#phase()}.`, { status: kind, ...NOT_STARTED })
  }

  #phase (): string {
    if (this.#cancelRestart !== null) return 'waiting to restart'
    if (this.#process === null) return 'no process'
    return this.#process.usable || this.#process.phase !== 'serving' ? this.#process.phase : 'ending'
  }

  /** Changes the status; ignores a change that is not allowed. */
  #move (status: RunnerStatus): void {
    const from = kindOf(this.#status)
    const to = kindOf(status)
    if (!mayFollow(from, to)) return
    this.#status = status
    if (from !== to) this.#statusSince = this.#options.clock.mono()
    // Changes between ready and running are not recorded, because each task has its own entries.
    if (from !== to && !(serves(from) && serves(to))) this.#record.note(`status ${to}`)
    this.#options.onStatus(status)
  }

  #launch (): void {
    this.#cancelRestart = null
    this.#move({ RunnerConnecting: {} })
    try {
      this.#process = new RunnerProcess(this.#options, this.#limits, this.#record, {
        status: (status) => { this.#move(status) },
        ended: (how) => { this.#onEnded(how) }
      })
    } catch (error) {
      const svcError = toSvcError(error)
      const full = svcError.reason === 'insufficient_storage'
      const message = reasonOf(full ? svcError : error)
      this.#onEnded({ message, wedged: false, full, exitCode: null, readyMs: 0 })
    }
  }

  #onEnded (how: ProcessEnd): void {
    this.#process = null
    this.#record.exitCode = how.exitCode
    if (how.message === null || this.#stopped !== null) return
    const { clock, log, random } = this.#options
    const failure = { nowMs: clock.mono(), readyMs: how.readyMs, wedged: how.wedged }
    const { state, verdict } = afterFailure(this.#breaker, failure, this.#limits, random ?? Math.random)
    this.#breaker = state
    if (verdict.giveUp) {
      this.#giveUp(how.message, how)
      return
    }
    const delayMs = Math.round(verdict.delayMs)
    log.warn({ ...this.#who, reason: how.message, delayMs }, 'runner lost; starting it again')
    this.#record.note(`restart in ${delayMs} ms`)
    this.#move({ RunnerIdle: {} })
    this.#refuseQueued(how.message)
    this.#record.restarts += 1
    this.#cancelRestart = clock.after(verdict.delayMs, () => { this.#launch() })
  }

  #giveUp (errorMessage: string, { wedged, full, unloadable }: ProcessEnd): void {
    const { log, onFailed } = this.#options
    const attempts = this.#breaker.attempts
    const fields = { ...this.#who, attempts, reason: errorMessage }
    if (wedged) log.fatal(fields, 'CRITICAL: runner wedged and given up')
    else log.error(fields, 'runner given up')
    this.#record.note(`given up after ${attempts} attempts`)
    // Only an overrun of the warmup deadline counts as wedged.
    const errorCode = wedged ? 'warmup_timeout' : full === true ? 'insufficient_storage'
      : unloadable ?? 'runner_failed'
    this.#move({ RunnerFailed: { errorMessage, errorCode } })
    this.#refuseQueued(errorMessage)
    onFailed({ errorMessage, errorCode, attempts })
  }

  #refuseQueued (message: string): void { this.#admission.refuseAll(lost(message, { ...NOT_STARTED })) }
}

export function slotsTaken ({ kind, payload: { n } }: EngineTask): number {
  if (kind === 'tokenize' || kind === 'detokenize') return 0
  return Number.isSafeInteger(n) && n as number > 0 ? n as number : 1
}

/** True for a task whose reader accepts answer chunks, which may carry the task's position in the queue. */
export const isAnswer = ({ kind }: EngineTask): boolean => /^(chat|completions?)$/.test(kind)
