import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { delay } from '../../../kernel/index.js'
import { TaskChannels } from './channels.js'
import {
  passedDeadline, describeEnd, AnnouncedWork, type ProcessEnd, type ExitFacts, type Phase
} from './deadlines.js'
import { lost, ProtocolError, RunnerError, LOAD_ERROR_CODES, type UnloadableCode } from './errors.js'
import type { RunnerLimits } from './limits.js'
import { Link } from './link.js'
import type { RunnerOptions } from './options.js'
import type { RunnerMessage } from './messages.js'
import { drain, RingFile, type Listening } from './output.js'
import { removePidfile } from './pidfile.js'
import { diagnose, processTreeBytes, firstChild, processorWaitMs } from './proc.js'
import { TO_RUNNER, type Frame } from './protocol.js'
import type { RunnerRecord } from './record.js'
import { endOf, launch, signalGroup, type Launched } from './spawn.js'
import type { SandboxLevel } from './sandbox.js'
import type { RunnerStatus } from '../service.js'

const LOG_FILE = 'runner.log'
/** Milliseconds to read the last frames and lines after the process has ended. */
const LAST_WORDS_MS = 500

/** By message, the only phase in which it is valid; all other messages are valid in every phase. */
const EXPECTED: Partial<Record<RunnerMessage['type'], Phase>> = {
  hello: 'connecting',
  progress: 'loading',
  loaded: 'loading',
  warming: 'loading',
  ready: 'warmup',
  chunk: 'serving',
  read: 'serving',
  end: 'serving',
  fail: 'serving'
}

interface ProcessEvents {
  status: (status: RunnerStatus) => void
  /** Called once, as the last event. */
  ended: (how: ProcessEnd) => void
}

export class RunnerProcess {
  readonly tasks: TaskChannels
  readonly #options: RunnerOptions
  readonly #limits: RunnerLimits
  readonly #record: RunnerRecord
  readonly #events: ProcessEvents
  readonly #launched: Launched
  readonly #link: Link
  readonly #work: AnnouncedWork
  readonly #ring: RingFile
  #pid: number
  #undo: (() => void)[] = []
  #phase: Phase = 'connecting'
  #since: number
  /** Start of the phase by the uncorrected clock, which the runner's own watchdog uses too. */
  #entered: number
  #readyAt: number | null = null
  #suspect = ''
  #failure: ExitFacts['failure'] = null
  #fatal = false
  #stopping = false
  #exit: { code: number | null, signal: string | null } | null = null
  #finished = false
  #rssBytes: number | null = null
  #starvedMs = 0
  #notedBytes = 0
  #whenEnded: () => void = () => {}
  readonly #ended: Promise<void>

  /** Starts the process. Throws if the system refuses. */
  constructor (options: RunnerOptions, limits: RunnerLimits, record: RunnerRecord, events: ProcessEvents) {
    const { clock, scratch, files, network } = options
    this.#options = options
    this.#limits = limits
    this.#record = record
    this.#events = events
    this.#since = this.mono()
    this.#entered = clock.mono()
    this.#work = new AnnouncedWork(limits)
    this.#ring = new RingFile(join(scratch, LOG_FILE), limits.logFileBytes)
    this.#ended = new Promise((resolve) => { this.#whenEnded = resolve })
    mkdirSync(scratch, { recursive: true, mode: 0o700 })
    this.#launched = launch({ scratch, mark: randomUUID(), files, network, now: clock.mono() })
    this.#pid = this.#launched.pid
    this.#link = new Link(this.#launched.frames, limits, clock, {
      message: (message, frame) => { this.#onMessage(message, frame) },
      broken: (error) => { this.kill(`the runner broke the frame protocol: ${error.message}`) },
      closed: (unread) => { this.#onLinkClosed(unread) }
    })
    this.tasks = new TaskChannels(limits, this, this.#link, record)
    this.#launched.child.on('exit', (code, signal) => { this.#onExit(code, signal) })
    this.#launched.child.on('close', () => { this.#finish() })
    this.#launched.child.on('error', () => {})
    this.#watch()
    this.#greet()
  }

  get exited (): boolean { return this.#exit !== null }
  /** False once the process has exited or is sure to exit; it must then get no more tasks. */
  get usable (): boolean {
    return !this.exited && !this.#stopping && this.#failure === null && !this.#link.closed
  }

  get rssBytes (): number | null { return this.exited ? null : this.#rssBytes }
  /** Pid of the runner after its hello frame; before that, of the program that starts the runner. */
  get pid (): number { return this.#pid }
  get phase (): Phase { return this.#phase }
  get hold (): SandboxLevel { return this.#launched.hold }

  get #who (): { runnerId: string, modelId: string } {
    return { runnerId: this.#options.runnerId, modelId: this.#options.spec.card.modelId }
  }

  /**
   * The clock for deadlines in ms. It stops while the runner is runnable but the machine has no CPU for it,
   * which is not the runner's fault.
   */
  readonly mono = (): number => this.#options.clock.mono() - this.#starvedMs

  /** Kills the process and records `message` as the reason for its failure; later messages are ignored. */
  kill (message: string, wedged = false, unloadable?: UnloadableCode): void {
    if (this.exited) return
    if (this.#failure === null && !this.#stopping) {
      this.#failure = { message, wedged, unloadable }
      this.#record.note(`killed: ${message}; ${diagnose(this.pid)}`)
    }
    signalGroup(this.#launched.pid, 'SIGKILL')
  }

  /**
   * Cancels the tasks, then sends SIGTERM and SIGKILL to the process group, `stopStepMs` apart. Resolves when
   * the process has ended.
   */
  async stop (): Promise<void> {
    if (!this.#stopping) {
      this.#stopping = true
      this.tasks.settleAll(new RunnerError('instance_lost', 'The instance was stopped.'))
      this.#link.send(TO_RUNNER.stop, 0, {})
      this.#escalate('SIGTERM', 1)
      this.#escalate('SIGKILL', 2)
    }
    await this.#ended
  }

  #escalate (signal: NodeJS.Signals, steps: number): void {
    const afterMs = steps * this.#limits.stopStepMs
    this.#undo.push(this.#options.clock.after(afterMs, () => {
      this.#record.note(`not stopped after ${afterMs} ms: ${signal} to the group`)
      signalGroup(this.#launched.pid, signal)
    }))
  }

  #greet (): void {
    const { spec, engineModule } = this.#options
    const { warmupMs, loopBlockedMs, windowChunks, windowBytes, maxFrameBytes } = this.#limits
    this.#record.note(`process ${this.pid} started`)
    this.#link.send(TO_RUNNER.spec, 0, {
      spec, engineModule, limits: { warmupMs, loopBlockedMs, windowChunks, windowBytes, maxFrameBytes }
    })
  }

  #watch (): void {
    const limits = this.#limits
    const { clock, output } = this.#options
    const listener = (name: 'stdout' | 'stderr'): Listening => ({
      line: (text) => { output?.(name, text) },
      dropped: (lines) => { this.#record.note(`${lines} lines of ${name} dropped`) }
    })
    this.#undo.push(
      drain(this.#launched.stdout, 'stdout', this.#ring, clock, limits, listener('stdout')),
      drain(this.#launched.stderr, 'stderr', this.#ring, clock, limits, listener('stderr')),
      clock.every(limits.checkMs, () => { this.#checkDeadlines() }),
      clock.every(limits.rssPollMs, () => { this.#checkMemory() })
    )
  }

  #onMessage (message: RunnerMessage, frame: Frame): void {
    const expected = EXPECTED[message.type]
    if (expected !== undefined && expected !== this.#phase) {
      throw new ProtocolError(`"${message.type}" came while ${this.#phase}, not while ${expected}`)
    }
    const { spec, log } = this.#options
    const { status } = this.#events
    switch (message.type) {
      case 'hello':
        if (this.hold === 'namespaces') this.#pid = firstChild(firstChild(this.#pid))
        this.#enter('loading')
        status({ RunnerConnected: {} })
        status({ RunnerLoading: { layersLoaded: 0, totalLayers: spec.card.nLayers } })
        break
      case 'progress':
        this.#since = this.mono()
        status({ RunnerLoading: { layersLoaded: message.loaded, totalLayers: message.total } })
        break
      case 'loaded':
        log.debug({ ...this.#who, info: message.info }, 'model loaded')
        status({ RunnerLoaded: {} })
        break
      case 'warming':
        this.#enter('warmup')
        status({ RunnerWarmingUp: {} })
        break
      case 'ready':
        this.#enter('serving')
        this.#readyAt = this.#entered
        this.#record.forward()
        log.info({ ...this.#who, warmupMs: Math.round(message.warmupMs) }, 'runner ready')
        status({ RunnerReady: {} })
        break
      case 'work': this.#work.apply(message, this.mono()); break
      case 'log': log[message.level]({ ...message.fields, pid: this.pid }, message.message); break
      case 'fatal': {
        const text = `the engine failed (${message.stage}): ${message.message}`
        const unloadable = message.stage !== 'load' ? undefined
          : LOAD_ERROR_CODES.find((code) => code === message.reason) ?? 'load_failed'
        this.#fatal = true
        this.kill(text, false, unloadable)
        // The process may end before its last frame is read.
        if (!this.#stopping) this.#failure ??= { message: text, wedged: false, unloadable }
        break
      }
      default: this.tasks.onMessage(frame.task, message, frame)
    }
  }

  #enter (phase: Phase): void {
    this.#phase = phase
    this.#since = this.mono()
    this.#entered = this.#options.clock.mono()
    this.#record.note(`phase ${phase}`)
  }

  /** A deadline counts only if two checks agree, because one may run before frames are read. */
  #checkDeadlines (): void {
    const { spec, processorWaitMs: waitedMs = processorWaitMs } = this.#options
    this.#starvedMs = Math.max(this.#starvedMs, waitedMs(this.pid))
    const now = this.mono()
    if (this.#stopping || this.#failure !== null) return
    if (!this.#work.busy) this.tasks.failIdle(now)
    const passed = passedDeadline({
      phase: this.#phase, since: this.#since, modelBytes: spec.card.totalBytes,
      overdueWork: this.#work.overdue(now), cancelledSince: this.tasks.cancelledSince,
      quietSince: this.#work.quietSince(now)
    }, this.#limits, now)
    if (passed !== null && passed.key === this.#suspect) this.kill(passed.message, passed.wedged)
    this.#suspect = passed?.key ?? ''
  }

  #checkMemory (): void {
    const limit = this.#options.memoryLimitBytes
    this.#rssBytes = this.exited ? null : processTreeBytes(this.#launched.pid)
    this.#noteMemory(this.#rssBytes ?? 0)
    if (limit === undefined || this.#rssBytes === null || this.#rssBytes <= limit) return
    const mib = (bytes: number): string => `${Math.round(bytes / 1024 ** 2)} MiB`
    this.kill(`the runner grew to ${mib(this.#rssBytes)} of resident memory; its limit is ${mib(limit)} ` +
      '(plugins.runners.memory_limit_mb)')
  }

  #noteMemory (bytes: number): void {
    if (bytes < 1.25 * this.#notedBytes || bytes === 0) return
    this.#notedBytes = bytes
    this.#record.note(`memory ${Math.round(bytes / 1024 ** 2)} MiB`)
  }

  #onLinkClosed (unread: number): void {
    if (unread > 0) this.#record.note(`the frames ended ${unread} bytes into one`)
    // A process without its frame socket cannot serve.
    const kill = (): void => { this.kill('the runner closed its frame socket') }
    this.#undo.push(this.#options.clock.after(LAST_WORDS_MS, kill))
  }

  /** Kills the process's descendants; its last frames and lines are still read. */
  #onExit (code: number | null, signal: NodeJS.Signals | null): void {
    this.#exit = endOf(this.hold, code, signal)
    signalGroup(this.#launched.pid, 'SIGKILL')
    this.#undo.push(this.#options.clock.after(LAST_WORDS_MS, () => { this.#finish() }))
  }

  #finish (): void {
    if (this.#finished) return
    this.#finished = true
    this.#link.finish()
    const how = describeEnd({
      stopping: this.#stopping, failure: this.#failure, phase: this.#phase, since: this.#entered,
      readyAt: this.#readyAt, exit: this.#exit
    }, this.#limits, this.#options.clock.mono())
    if (this.#ring.lost > 0) this.#record.note(`${this.#ring.lost} lines of output could not be written`)
    for (const undo of this.#undo) undo()
    this.#launched.stdout.destroy()
    this.#launched.stderr.destroy()
    removePidfile(this.#options.scratch)
    const { code, signal } = this.#exit ?? { code: null, signal: null }
    this.#record.note(`${how.message ?? 'process stopped'} (exit ${signal ?? code ?? 'unknown'})`)
    const shown = this.#fatal ? undefined : this.#failure?.message
    this.tasks.loseAll(lost(how.message ?? 'it was stopped', {}, shown))
    this.#events.ended(how)
    // A disk that does not respond must not delay the stop.
    void Promise.race([this.#ring.flushed(), delay(this.#options.clock, LAST_WORDS_MS)]).then(this.#whenEnded)
  }
}
