import { cancelled, lost, ProtocolError, RunnerError } from './errors.js'
import { InputSender } from './input.js'
import { chunkOf, type RunnerMessage } from './messages.js'
import { CreditReturn, CreditWindow, TO_RUNNER, type Frame } from './protocol.js'
import type { EngineChunk, EngineTask } from '../../../kernel/api/engine.js'
import type { Clock, Hop, Trace } from '../../../kernel/index.js'
import type { RunnerLimits } from './limits.js'
import type { Link } from './link.js'
import type { RunnerRecord } from './record.js'

type Outcome = { readonly error: RunnerError | null }

/**
 * One task as the node sees it: unread chunks, credit and outcome. `settle` ends the task for the reader,
 * `release` for the runner: a cancelled task ends for its reader immediately but occupies its slot until the
 * runner stops working on it.
 */
export class TaskChannel {
  readonly taskId: string
  readonly input: InputSender | undefined
  readonly #send: (kind: number, header: object, media?: Uint8Array) => void
  readonly #window: CreditWindow
  readonly #returns: CreditReturn
  readonly #queue: { chunk: EngineChunk, bytes: number }[] = []
  #wake: () => void = () => {}
  #outcome: Outcome | null = null
  #nextIndex = 0
  #lastChunkAt: number | null = null
  #cancelledAt: number | null = null

  constructor (
    taskId: string, limits: RunnerLimits, send: (kind: number, header: object, media?: Uint8Array) => void,
    input?: InputSender
  ) {
    this.taskId = taskId
    this.input = input
    this.#send = send
    this.#window = new CreditWindow(limits.windowChunks, limits.windowBytes)
    this.#returns = new CreditReturn(limits.windowChunks, limits.windowBytes)
  }

  get settled (): boolean { return this.#outcome !== null }
  get waiting (): number { return this.#queue.length }
  get cancelledAt (): number | null { return this.#cancelledAt }

  /**
   * Time since which the runner could have sent a chunk or read input; null if it has to wait for the reader
   * or the client, or has done neither so far.
   */
  get idleSince (): number | null {
    if (this.settled || !this.#window.open || this.#queue.length > 0 || this.input?.starved === true) {
      return null
    }
    const since = Math.max(this.#lastChunkAt ?? -Infinity, this.input?.movedAt ?? -Infinity)
    return since === -Infinity ? null : since
  }

  /**
   * Accepts a chunk. A duplicate is dropped, a gap fails the task, a chunk without credit throws
   * ProtocolError. Returns the outcome for the flight recorder.
   */
  accept (index: number, chunk: EngineChunk, bytes: number, nowMs: number): 'kept' | 'dropped' | 'gap' {
    if (this.settled || index < this.#nextIndex) return 'dropped'
    if (index > this.#nextIndex) {
      this.settle(new RunnerError('provider_error',
        `The stream of the runner has a gap: chunk ${this.#nextIndex} is missing.`))
      return 'gap'
    }
    if (!this.#window.open) throw new ProtocolError('a chunk came without credit')
    this.#window.take(bytes)
    this.#nextIndex += 1
    this.#lastChunkAt = nowMs
    this.#queue.push({ chunk, bytes })
    this.#wake()
    return 'kept'
  }

  /** Ends the task for its reader; `error` is null for a clean end. False if the task had already ended. */
  settle (error: RunnerError | null): boolean {
    if (this.#outcome !== null) return false
    this.#outcome = { error }
    this.input?.stop()
    this.#wake()
    return true
  }

  /** Asks the runner to stop working on the task. The caller must settle the reader. */
  cancel (nowMs: number): void {
    if (this.#cancelledAt !== null) return
    this.#cancelledAt = nowMs
    this.#send(TO_RUNNER.cancel, {})
  }

  /** The next chunk, or null at a clean end. Throws the task's RunnerError after all earlier chunks. */
  async next (nowMs: () => number): Promise<EngineChunk | null> {
    for (;;) {
      const first = this.#outcome?.error?.reason === 'cancelled' ? undefined : this.#queue.shift()
      if (first !== undefined) {
        this.#giveBack(first.bytes, nowMs())
        return first.chunk
      }
      if (this.#outcome?.error != null) throw this.#outcome.error
      if (this.#outcome !== null) return null
      await new Promise<void>((resolve) => { this.#wake = resolve })
    }
  }

  #giveBack (bytes: number, nowMs: number): void {
    const lot = this.#returns.countRead(bytes)
    if (lot === null) return
    if (!this.#window.open) this.#lastChunkAt = nowMs
    this.#window.grant(lot.chunks, lot.bytes)
    if (!this.settled) this.#send(TO_RUNNER.credit, lot)
  }
}

type TaskMessage = Extract<RunnerMessage, { type: 'chunk' | 'read' | 'end' | 'fail' }>

interface Entered { channel: TaskChannel, hop: Hop | undefined, released: Released }

/** Called when a task has left the runner. `served` is false if it was lost, failed or cancelled. */
export type Released = (served: boolean) => void

/** The tasks inside one runner process. Only the first terminal frame of a task counts. */
export class TaskChannels {
  readonly #limits: RunnerLimits
  readonly #clock: Pick<Clock, 'mono'>
  readonly #link: Pick<Link, 'send'>
  readonly #record: RunnerRecord
  readonly #entered = new Map<number, Entered>()
  #lastNumber = 0

  constructor (
    limits: RunnerLimits, clock: Pick<Clock, 'mono'>, link: Pick<Link, 'send'>, record: RunnerRecord
  ) {
    this.#limits = limits
    this.#clock = clock
    this.#link = link
    this.#record = record
  }

  get size (): number { return this.#entered.size }
  get buffered (): number { return this.#channels.reduce((sum, { waiting }) => sum + waiting, 0) }
  get taskIds (): string[] { return this.#channels.map(({ taskId }) => taskId) }

  /** Time at which the oldest cancelled task that is still in the runner was cancelled. */
  get cancelledSince (): number | null {
    const oldest = Math.min(...this.#channels.map(({ cancelledAt }) => cancelledAt ?? Infinity))
    return oldest === Infinity ? null : oldest
  }

  get #channels (): TaskChannel[] { return [...this.#entered.values()].map(({ channel }) => channel) }

  /** Hands a task to the runner. Throws TypeError for a payload that is not JSON. */
  open (
    taskId: string, { kind, payload, input }: EngineTask, released: Released, trace: Trace | undefined
  ): TaskChannel {
    const number = ++this.#lastNumber
    const send = (kind: number, header: object, media?: Uint8Array): void => {
      this.#link.send(kind, number, header, media)
    }
    const sender = input === undefined ? undefined : new InputSender(input, send, () => this.#clock.mono())
    const channel = new TaskChannel(taskId, this.#limits, send, sender)
    const hop = trace?.hop('runner', { nodeId: null, installId: null })
    // Send before registering the task, because this throws if the payload is not JSON.
    send(TO_RUNNER.task, {
      kind, payload,
      ...hop === undefined ? {} : { trace: true }, ...input === undefined ? {} : { input: true }
    })
    this.#entered.set(number, { channel, hop, released })
    this.#record.note(`task ${taskId} (${kind}) started`)
    return channel
  }

  cancel (channel: TaskChannel): void {
    channel.settle(cancelled())
    if (this.#channels.includes(channel)) channel.cancel(this.#clock.mono())
  }

  settleAll (error: RunnerError): void {
    for (const channel of this.#channels) {
      channel.settle(error)
      channel.cancel(this.#clock.mono())
    }
  }

  loseAll (error: RunnerError): void {
    for (const [number, entered] of [...this.#entered]) {
      entered.channel.settle(error)
      this.#release(number, entered, false)
    }
  }

  failIdle (nowMs: number): void {
    const limit = this.#limits.chunkIdleMs
    for (const channel of this.#channels) {
      if (channel.idleSince === null || nowMs - channel.idleSince <= limit) continue
      channel.settle(new RunnerError('timeout', `The engine produced no output for ${limit / 1000} s.`))
      channel.cancel(nowMs)
      this.#record.note(`task ${channel.taskId} produced no output for ${limit} ms`)
    }
  }

  /** Applies a runner's message about a task. Throws ProtocolError for a task that never existed. */
  onMessage (number: number, message: TaskMessage, frame: Pick<Frame, 'media' | 'bytes'>): void {
    if (message.type === 'chunk') {
      this.#record.forward()
      this.#record.chunksReceived += 1
    }
    const entered = this.#entered.get(number)
    if (entered === undefined) {
      const known = number >= 1 && number <= this.#lastNumber
      if (!known) throw new ProtocolError(`a frame for unknown task ${number}`)
      if (message.type === 'read') return
      if (message.type === 'chunk') this.#record.chunksDropped += 1
      this.#record.note(`a second terminal or late chunk of task number ${number} was dropped`)
    } else if (message.type === 'chunk') {
      this.#onChunk(entered.channel, message, frame)
    } else if (message.type === 'read') {
      if (entered.channel.input === undefined) throw new ProtocolError('a read of a task without input')
      entered.channel.input.onRead(message.total)
    } else {
      this.#onTerminal(number, entered, message)
    }
  }

  #onChunk (
    channel: TaskChannel, message: TaskMessage & { type: 'chunk' }, frame: Pick<Frame, 'media' | 'bytes'>
  ): void {
    const nowMs = this.#clock.mono()
    const result = channel.accept(message.index, chunkOf(message, frame), frame.bytes, nowMs)
    if (result === 'kept') return
    this.#record.chunksDropped += 1
    this.#record.note(`chunk ${message.index} of task ${channel.taskId}: ${result}`)
    if (result === 'gap') channel.cancel(nowMs)
  }

  #onTerminal (number: number, entered: Entered, message: TaskMessage & { type: 'end' | 'fail' }): void {
    const { channel, hop } = entered
    const error = message.type === 'end' ? null
      : message.reason === 'instance_lost' ? lost(message.message)
        : new RunnerError(message.reason, message.message, message.details)
    hop?.done(message.trace)
    channel.settle(error)
    this.#record.note(`task ${channel.taskId} ${error === null ? 'ended' : `failed: ${error.reason}`}`)
    this.#release(number, entered, error === null && channel.cancelledAt === null)
  }

  #release (number: number, { hop, released }: Entered, served: boolean): void {
    this.#entered.delete(number)
    hop?.done()
    if (served) this.#record.completedTasks += 1
    released(served)
  }
}
