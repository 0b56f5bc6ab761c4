import { ProtocolError, RunnerError } from './errors.js'
import { TO_RUNNER } from './messages.js'
import { TaskChannel } from './tasks.js'
import type { EngineChunk, EngineTask } from '../../../kernel/api/engine.js'
import type { Clock, Hop, Trace } from '../../../kernel/index.js'
import type { Frame } from './frames.js'
import type { RunnerLimits } from './limits.js'
import type { Link } from './link.js'
import type { RunnerMessage } from './messages.js'

type TaskMessage = Extract<RunnerMessage, { type: 'chunk' | 'end' | 'fail' }>

export interface TableEvents {
  /** The runner has let go of the task. `served` is false when it was lost, failed or cancelled. */
  released (channel: TaskChannel, served: boolean): void
  /** A chunk was not kept. */
  dropped (): void
  note (what: string): void
}

/** The tasks inside one runner process. A task leaves it at the runner's terminal, and only once. */
export class TaskTable {
  readonly #limits: RunnerLimits
  readonly #clock: Pick<Clock, 'mono'>
  readonly #link: Link
  readonly #events: TableEvents
  readonly #channels = new Map<number, TaskChannel>()
  /** Of the traced tasks. */
  readonly #hops = new Map<number, Hop>()
  #lastNumber = 0

  constructor (limits: RunnerLimits, clock: Pick<Clock, 'mono'>, link: Link, events: TableEvents) {
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

  /** When the oldest cancelled task that still holds its place was cancelled. */
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
    // Sent first: a payload that is not JSON throws before the task takes a place.
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

  /** Ends every task for its reader; the runner is asked to let go. */
  settleAll (error: RunnerError): void {
    for (const channel of this.#channels.values()) {
      channel.settle(error)
      channel.cancel(this.#clock.mono())
    }
  }

  /** The runner is gone, and every task with it. */
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
