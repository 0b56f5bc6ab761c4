import { isObject } from '../../../kernel/api/schema.js'
import { TaskInput } from './input.js'
import { CreditWindow, encodeFrame, FROM_RUNNER, type Frame } from './protocol.js'
import { partOf, SpanRecorder } from './span-recorder.js'
import type { EngineChunk, EngineSession, EngineTask } from '../../../kernel/api/engine.js'
import type { HostLimits } from './limits.js'
import type { NodeLink } from './node-link.js'

const MAX_MESSAGE = 4_096
const MAX_DETAILS_BYTES = 65_536

interface ServeEnv {
  link: NodeLink
  limits: HostLimits
  log (level: 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void
  /** Monotonic milliseconds. */
  now (): number
}

interface Running {
  abort: AbortController
  window: CreditWindow
  wake: () => void
  done: Promise<void>
  trace: SpanRecorder | undefined
  input: TaskInput | undefined
}

/** The header of a task frame. */
export type StartedTask = Pick<EngineTask, 'kind' | 'payload'> & { trace?: boolean, input?: boolean }

/** The tasks that a runner is serving. Each ends with exactly one `end` or `fail` frame. */
export class TaskServer {
  readonly #env: ServeEnv
  readonly #session: EngineSession
  readonly #running = new Map<number, Running>()

  constructor (session: EngineSession, env: ServeEnv) {
    this.#session = session
    this.#env = env
  }

  /** Starts a task. With `trace` the terminal frame carries the recorded spans. */
  start (number: number, header: StartedTask): void {
    const { limits: { windowChunks, windowBytes }, link, now } = this.#env
    const window = new CreditWindow(windowChunks, windowBytes)
    const trace = header.trace === true ? new SpanRecorder(now) : undefined
    const input = header.input === true
      ? new TaskInput((total) => { link.send(FROM_RUNNER.read, number, { total }) })
      : undefined
    const running: Running = {
      abort: new AbortController(), window, wake: () => {}, done: Promise.resolve(), trace, input
    }
    this.#running.set(number, running)
    const { kind, payload } = header
    const task = {
      kind, payload, ...trace === undefined ? {} : { trace }, ...input === undefined ? {} : { input }
    }
    running.done = this.#serve(number, task, running).finally(() => { this.#running.delete(number) })
  }

  grant (number: number, chunks: number, bytes: number): void {
    const running = this.#running.get(number)
    running?.window.grant(chunks, bytes)
    running?.wake()
  }

  /** Takes a frame of a task's input; ignores it if the task has ended. */
  onInput (number: number, frame: Frame): void { this.#running.get(number)?.input?.onFrame(frame) }

  cancel (number: number): void {
    const running = this.#running.get(number)
    running?.abort.abort()
    running?.input?.cancel()
    running?.wake()
  }

  /** Cancels every task; resolves when the engine has finished all of them. */
  async cancelAll (): Promise<void> {
    const all = [...this.#running.entries()]
    for (const [number] of all) this.cancel(number)
    await Promise.all(all.map(async ([, running]) => { await running.done }))
  }

  async #serve (number: number, task: EngineTask, running: Running): Promise<void> {
    const { link } = this.#env
    const { trace } = running
    const receivedMs = trace?.now() ?? 0
    const recorded = () => trace === undefined ? {} : { trace: partOf(trace, 'runner', receivedMs) }
    try {
      await this.#stream(number, task, running)
      link.send(FROM_RUNNER.end, number, recorded())
    } catch (error) {
      if (running.abort.signal.aborted) link.send(FROM_RUNNER.end, number, recorded())
      else link.send(FROM_RUNNER.fail, number, { ...this.#explain(error), ...recorded() })
    }
  }

  async #stream (number: number, task: EngineTask, running: Running): Promise<void> {
    const { abort: { signal }, trace } = running
    const made = trace?.series('chunk', 'engine')
    const iterator = this.#session.run(task, signal)[Symbol.asyncIterator]()
    let index = 0
    for (;;) {
      if (!running.window.open) await this.#credit(running)
      if (signal.aborted) break
      const startMs = trace?.now() ?? 0
      const result = await iterator.next()
      made?.add(startMs, trace!.now())
      if (result.done === true) return
      if (signal.aborted) break
      try {
        running.window.take(this.#send(number, index++, result.value))
      } catch (error) {
        await iterator.return?.()
        throw error
      }
    }
    await iterator.return?.()
  }

  /** Resolves when a chunk may be sent or the task has been cancelled. */
  async #credit (running: Running): Promise<void> {
    const { window, trace, abort } = running
    const startMs = trace?.now() ?? 0
    while (!window.open && !abort.signal.aborted) {
      await new Promise<void>((resolve) => { running.wake = resolve })
    }
    trace?.series('wait for reader', 'backpressure').add(startMs, trace.now())
  }

  #send (number: number, index: number, chunk: EngineChunk): number {
    if (typeof chunk !== 'object' || chunk === null || !isObject(chunk.payload)) {
      throw new TypeError('the engine yielded a chunk without a payload object')
    }
    if (chunk.media !== undefined && !(chunk.media instanceof Uint8Array)) {
      throw new TypeError('the engine yielded media that are not a Uint8Array')
    }
    const pieces = encodeFrame(FROM_RUNNER.chunk, number,
      { index, payload: chunk.payload, timing: chunk.timing }, chunk.media)
    const bytes = pieces[0]!.byteLength + (pieces[1]?.byteLength ?? 0)
    if (bytes > this.#env.limits.maxFrameBytes) {
      throw new RangeError(`the engine yielded a chunk of ${bytes} bytes; ` +
        `at most ${this.#env.limits.maxFrameBytes} fit into a frame`)
    }
    // If this is the only task, send its chunk immediately: the engine may block this thread next.
    this.#env.link.sendEncoded(pieces, this.#running.size > 1)
    return bytes
  }

  /** Keeps reason and details of an EngineError, whose class may come from another copy of the kernel. */
  #explain (error: unknown): { reason: string, message: string, details: Record<string, unknown> } {
    if (isEngineError(error)) {
      const message = error.message.slice(0, MAX_MESSAGE)
      return { reason: error.reason, message, details: plain(error.details) }
    }
    this.#env.log('error', 'the engine threw while serving a task', {
      error: error instanceof Error ? error.stack ?? error.message : String(error)
    })
    return { reason: 'provider_error', message: 'The engine failed while serving the task.', details: {} }
  }
}

export function isEngineError (
  error: unknown
): error is { reason: string, message: string, details: unknown } {
  return error instanceof Error && error.name === 'EngineError' && 'reason' in error &&
    typeof error.reason === 'string' && /^[a-z][a-z0-9_]{0,63}$/.test(error.reason)
}

function plain (details: unknown): Record<string, unknown> {
  try {
    const text = JSON.stringify(details)
    return isObject(details) && text.length <= MAX_DETAILS_BYTES ? details : {}
  } catch {
    return {}
  }
}
