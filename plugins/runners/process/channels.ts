import { ProtocolError, RunnerError } from './errors.js'
import type { EngineChunk, EngineTask } from '../../../kernel/api/engine.js'
import type { RunnerLimits } from './limits.js'
import { CreditReturn, CreditWindow, TO_RUNNER } from './protocol.js'
import type { Frame, RunnerMessage } from './protocol.js'
import type { Clock, Hop, Trace } from '../../../kernel/index.js'
import type { Link } from './link.js'

type Outcome = { readonly error: RunnerError | null }

/** How a channel reaches its runner process. */
interface ChannelIo {
  grant (chunks: number, bytes: number): void
  cancel (): void
}

/**
 * One task as the node sees it: its unread chunks, its credit and its terminal. The reader's end (`settle`)
 * and the runner's end (`release`) are separate: a cancelled task ends for its reader at once, but occupies
 * its place until the runner has stopped working on it.
 */
export class TaskChannel {
  readonly taskId: string
  readonly #io: ChannelIo
  readonly #window: CreditWindow
  readonly #returns: CreditReturn
  readonly #queue: { chunk: EngineChunk, bytes: number }[] = []
  #wake: () => void = () => {}
  #outcome: Outcome | null = null
  #nextIndex = 0
  #lastChunkAt: number | null = null
  #cancelledAt: number | null = null

  constructor (taskId: string, limits: RunnerLimits, io: ChannelIo) {
    this.taskId = taskId
    this.#io = io
    this.#window = new CreditWindow(limits.windowChunks, limits.windowBytes)
    this.#returns = new CreditReturn(limits.windowChunks, limits.windowBytes)
  }

  get settled (): boolean { return this.#outcome !== null }
  /** Unread chunks. */
  get waiting (): number { return this.#queue.length }
  get cancelledAt (): number | null { return this.#cancelledAt }

  /** Since when the reader has been waiting for a second or later chunk; null when it is not. */
  get idleSince (): number | null {
    return this.settled || !this.#window.open || this.#queue.length > 0 ? null : this.#lastChunkAt
  }

  /**
   * Takes a chunk. A duplicate is dropped, a gap fails the task, a chunk without credit is a ProtocolError.
   * Returns what happened, for the flight recorder.
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

  /** Ends the task for its reader, once: null for a clean end. False when it had ended before. */
  settle (error: RunnerError | null): boolean {
    if (this.#outcome !== null) return false
    this.#outcome = { error }
    this.#wake()
    return true
  }

  /** Asks the runner to stop working on it. The reader's terminal is the caller's business. */
  cancel (nowMs: number): void {
    if (this.#cancelledAt !== null) return
    this.#cancelledAt = nowMs
    this.#io.cancel()
  }

  /** The next chunk, or null at the clean end. Throws the task's RunnerError after the chunks before it. */
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
    const lot = this.#returns.taken(bytes)
    if (lot === null) return
    if (!this.#window.open) this.#lastChunkAt = nowMs
    this.#window.grant(lot.chunks, lot.bytes)
    if (!this.settled) this.#io.grant(lot.chunks, lot.bytes)
  }
}

type TaskMessage = Extract<RunnerMessage, { type: 'chunk' | 'end' | 'fail' }>

interface ChannelEvents {
  /** The task has left the runner. `served` is false when it was lost, failed or cancelled. */
  released (channel: TaskChannel, served: boolean): void
  /** A chunk was not kept. */
  dropped (): void
  note (what: string): void
}

/** The tasks inside one runner process. Only the first terminal of a task counts; later ones are dropped. */
export class TaskChannels {
  readonly #limits: RunnerLimits
  readonly #clock: Pick<Clock, 'mono'>
  readonly #link: Link
  readonly #events: ChannelEvents
  readonly #channels = new Map<number, TaskChannel>()
  /** Of the traced tasks. */
  readonly #hops = new Map<number, Hop>()
  #lastNumber = 0

  constructor (limits: RunnerLimits, clock: Pick<Clock, 'mono'>, link: Link, events: ChannelEvents) {
    this.#limits = limits
    this.#clock = clock
    this.#link = link
    this.#events = events
  }

  get size (): number { return this.#channels.size }
  /** Chunks that wait for their readers. */
  get buffered (): number {
    return [...this.#channels.values()].reduce((sum, { waiting }) => sum + waiting, 0)
  }

  get taskIds (): string[] { return [...this.#channels.values()].map((channel) => channel.taskId) }

  /** When the oldest of the cancelled tasks that are still in the runner was cancelled. */
  get cancelledSince (): number | null {
    const times = [...this.#channels.values()].map((channel) => channel.cancelledAt ?? Infinity)
    const oldest = Math.min(...times)
    return oldest === Infinity ? null : oldest
  }

  open (taskId: string, task: EngineTask, trace?: Trace): TaskChannel {
    const number = ++this.#lastNumber
    const channel = new TaskChannel(taskId, this.#limits, {
      grant: (chunks, bytes) => { this.#link.send(TO_RUNNER.credit, number, { chunks, bytes }) },
      cancel: () => { this.#link.send(TO_RUNNER.cancel, number, {}) }
    })
    // Sent first: a payload that is not JSON throws before the task is entered.
    const { kind, payload } = task
    const hop = trace?.hop('runner', { nodeId: null, installId: null })
    this.#link.send(TO_RUNNER.task, number, { kind, payload, ...(hop === undefined ? {} : { trace: true }) })
    if (hop !== undefined) this.#hops.set(number, hop)
    this.#channels.set(number, channel)
    this.#events.note(`task ${taskId} (${kind}) started`)
    return channel
  }

  cancel (channel: TaskChannel): void {
    if ([...this.#channels.values()].includes(channel)) channel.cancel(this.#clock.mono())
  }

  /** Applies what the runner says about a task. Throws ProtocolError when it never had such a task. */
  onMessage (number: number, message: TaskMessage, frame: Pick<Frame, 'media' | 'bytes'>): void {
    const channel = this.#channels.get(number)
    if (channel === undefined) {
      const known = number >= 1 && number <= this.#lastNumber
      if (!known) throw new ProtocolError(`a frame for unknown task ${number}`)
      if (message.type === 'chunk') this.#events.dropped()
      this.#events.note(`a second terminal or late chunk of task number ${number} was dropped`)
    } else if (message.type === 'chunk') {
      this.#onChunk(channel, message, frame)
    } else {
      this.#onTerminal(number, channel, message)
    }
  }

  /** Fails tasks whose reader has waited too long for the next chunk. */
  failIdle (nowMs: number): void {
    const limit = this.#limits.chunkIdleMs
    for (const channel of this.#channels.values()) {
      if (channel.idleSince === null || nowMs - channel.idleSince <= limit) continue
      channel.settle(new RunnerError('timeout', `The engine produced nothing for ${limit / 1000} s.`))
      channel.cancel(nowMs)
      this.#events.note(`task ${channel.taskId} produced nothing for ${limit} ms`)
    }
  }

  /** Ends every task for its reader, and cancels it in the runner. */
  settleAll (error: RunnerError): void {
    for (const channel of this.#channels.values()) {
      channel.settle(error)
      channel.cancel(this.#clock.mono())
    }
  }

  /** Ends every task: the runner is gone. */
  loseAll (error: RunnerError): void {
    for (const [number, channel] of [...this.#channels]) {
      channel.settle(error)
      this.#release(number, channel, false)
    }
  }

  #onChunk (
    channel: TaskChannel, message: TaskMessage & { type: 'chunk' }, frame: Pick<Frame, 'media' | 'bytes'>
  ): void {
    const chunk: EngineChunk = {
      payload: message.payload,
      ...(frame.media.byteLength === 0 ? {} : { media: frame.media }),
      ...(message.timing === undefined ? {} : { timing: message.timing })
    }
    const result = channel.accept(message.index, chunk, frame.bytes, this.#clock.mono())
    if (result === 'kept') return
    this.#events.dropped()
    this.#events.note(`chunk ${message.index} of task ${channel.taskId}: ${result}`)
    if (result === 'gap') channel.cancel(this.#clock.mono())
  }

  #onTerminal (number: number, channel: TaskChannel, message: TaskMessage & { type: 'end' | 'fail' }): void {
    const error = message.type === 'end'
      ? null
      : new RunnerError(message.reason, message.message, message.details)
    this.#hops.get(number)?.done(message.trace)
    channel.settle(error)
    this.#events.note(`task ${channel.taskId} ${error === null ? 'ended' : `failed: ${error.reason}`}`)
    const served = error === null && channel.cancelledAt === null
    this.#release(number, channel, served)
  }

  #release (number: number, channel: TaskChannel, served: boolean): void {
    this.#channels.delete(number)
    this.#hops.get(number)?.done()
    this.#hops.delete(number)
    this.#events.released(channel, served)
  }
}
