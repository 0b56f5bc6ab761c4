import { AbortableWaits, errorBody, kernelError, SvcError, toSvcError } from '../../kernel/index.js'
import type { Clock, SpanSeries } from '../../kernel/index.js'
import type { Call } from './calls.js'
import type { CheckedChunk } from './drive.js'
import type { FrameHeader } from './frames/frames.js'
import type { ChunkBuffer, BufferLimits, BufferItem } from './chunk-buffer.js'
import type { FrameSink } from './framing.js'

/** Where a call's frames go, and when the response head is sent. */
export interface StreamTarget {
  /** Only media bytes are sent: the head waits for the first of them, and an abort cuts the connection. */
  readonly raw: boolean
  /** The head waits for the first chunk, as with `raw`. */
  readonly holdsHead?: boolean
  /** A lost call may be retried before its first chunk even though the head has been sent. */
  readonly retries?: boolean
  /** A failure before the response head is thrown instead of sent as frames. */
  readonly throwsEarly: boolean
  readonly room: BufferLimits
  open (headers: Readonly<Record<string, string>>): FrameSink
}

/** True if nothing is sent before the first chunk, however long that takes. */
export const delaysHeaders = ({ raw, holdsHead }: StreamTarget): boolean => raw || holdsHead === true

/** The content of the terminal frame. */
export type StreamEnd =
  | { kind: 'completed', payload: unknown }
  | { kind: 'failed' | 'cancelled', error: SvcError }

/**
 * Sends the buffered chunks as numbered frames: `started` is 0, then the chunks, then one terminal frame.
 * Throws an SvcError only if the target throws early failures.
 */
export async function deliver (
  call: Call, buffer: ChunkBuffer<CheckedChunk>, target: StreamTarget,
  options: { clock: Clock, headHoldMs: number, graceMs: number }
): Promise<StreamEnd> {
  const writer = new FrameWriter(call, target)
  const stopCutting = cutAfterAbort(call, writer, target, options)
  try {
    const terminal = await sendChunks(call, buffer, writer, target, options)
    if (terminal.kind !== 'completed' && !writer.open && target.throwsEarly) throw terminal.error
    const sent = await writer.finish(terminal)
    return sent || terminal.kind !== 'completed' ? terminal : failure(call.signal.reason)
  } finally {
    stopCutting()
    buffer.close()
    // Stops a running handler that has lost its reader.
    call.fail(kernelError('cancelled', 'The call has ended.'))
  }
}

async function sendChunks (
  call: Call, buffer: ChunkBuffer<CheckedChunk>, writer: FrameWriter, target: StreamTarget,
  options: { clock: Clock, headHoldMs: number }
): Promise<StreamEnd> {
  const waits = new AbortableWaits(call.signal)
  try {
    let taken = await firstChunk(waits.wait(buffer.take()), writer, target, options)
    while (!taken.done) {
      const writing = writer.chunk(taken.value)
      if (writing !== undefined) await writing
      if (call.signal.aborted) throw call.signal.reason
      taken = buffer.ready() ?? await waits.wait(buffer.take())
    }
    if (call.signal.aborted) throw call.signal.reason
    return { kind: 'completed', payload: taken.value }
  } catch (error) {
    return failure(call.signal.aborted ? call.signal.reason : error)
  } finally {
    waits.end()
  }
}

/** Delays the head briefly, so that an early failure can set the HTTP status. */
async function firstChunk (
  first: Promise<BufferItem<CheckedChunk>>, writer: FrameWriter, target: StreamTarget,
  options: { clock: Clock, headHoldMs: number }
): Promise<BufferItem<CheckedChunk>> {
  if (delaysHeaders(target)) return await first
  let stop = (): void => {}
  const held = new Promise<null>((resolve) => {
    stop = options.clock.after(options.headHoldMs, () => { resolve(null) })
  })
  const winner = await Promise.race([first, held]).finally(stop)
  if (winner !== null) return winner
  first.catch(() => {})
  await writer.start()
  return await first
}

const failure = (error: unknown): StreamEnd => {
  const known = toSvcError(error)
  return { kind: known.reason === 'cancelled' ? 'cancelled' : 'failed', error: known }
}

/** Disconnects a reader that keeps an aborted call open: from raw streams at once, else after `graceMs`. */
function cutAfterAbort (
  call: Call, writer: FrameWriter, target: StreamTarget, options: { clock: Clock, graceMs: number }
): () => void {
  let stop = (): void => {}
  const onAbort = (): void => {
    if (target.raw) writer.cut()
    else stop = options.clock.after(options.graceMs, () => { writer.cut() })
  }
  if (call.signal.aborted) onAbort()
  else call.signal.addEventListener('abort', onAbort)
  return () => { call.signal.removeEventListener('abort', onAbort); stop() }
}

class FrameWriter {
  readonly #call: Call
  readonly #target: StreamTarget
  #sink: FrameSink | null = null
  #sequence = 0
  #lost = false
  #release = (): void => {}
  /** Records the write time of each frame in the call's trace. */
  readonly #writes: SpanSeries | undefined

  constructor (call: Call, target: StreamTarget) {
    this.#call = call
    this.#target = target
    this.#writes = call.trace?.series('write', 'client')
  }

  get open (): boolean { return this.#sink !== null }

  async start (): Promise<void> {
    if (this.#sink !== null) return
    this.#sink = this.#target.open({ ...this.#call.headers, 'x-svc-command-id': this.#call.commandId })
    const payload = { command_id: this.#call.commandId, task_id: this.#call.headers['x-svc-task-id'] ?? null }
    const { trace } = this.#call
    const startMs = trace?.now() ?? 0
    await this.#write({ kind: 'started', payload })
    trace?.span('first bytes', 'client', startMs, trace.now())
  }

  /** Undefined if the sink accepted the frame synchronously: a promise per token is expensive. */
  chunk (chunk: CheckedChunk): Promise<void> | undefined {
    const { payload, media, bytes } = chunk
    if (this.#target.raw && (bytes?.byteLength ?? 0) === 0) return undefined
    const write = (): Promise<void> | undefined => this.#write({ kind: 'chunk', payload, media }, bytes)
    return this.#sink === null ? this.start().then(write) : write()
  }

  /** Sends the terminal frame and ends the stream; cuts it and returns false if the reader is gone. */
  async finish (terminal: StreamEnd): Promise<boolean> {
    try {
      await this.start()
      const { origin, trace } = this.#call
      const part = origin.recorded === true && trace !== undefined ? { trace: trace.part() } : {}
      if (terminal.kind === 'completed') {
        await this.#write({ kind: 'completed', payload: terminal.payload, ...part })
      } else {
        const error = errorBody(terminal.error, origin.requestId).error
        await this.#write({ kind: terminal.kind, error: terminal.kind === 'failed' ? error : null, ...part })
      }
      await this.#untilCut(this.#sink!.end())
      return true
    } catch (error) {
      this.#fail(error)
      this.cut()
      return false
    }
  }

  #fail (error: unknown): void {
    this.#call.fail(error instanceof SvcError ? error : kernelError('cancelled', 'The client disconnected.'))
  }

  cut (): void {
    this.#lost = true
    this.#sink?.cut()
    this.#release()
  }

  /** A failed write ends the call without an error frame, which could not be delivered either. */
  #write (
    fields: Partial<FrameHeader> & Pick<FrameHeader, 'kind'>, bytes: Uint8Array | null = null
  ): Promise<void> | undefined {
    const common = { call_id: this.#call.callId, sequence: this.#sequence++ }
    const header: FrameHeader = { ...common, payload: null, media: null, error: null, ...fields }
    const startMs = this.#writes === undefined ? 0 : this.#call.trace!.now()
    const written = (): void => { this.#writes?.add(startMs, this.#call.trace!.now()) }
    const failed = (error: unknown): never => {
      this.#lost = true
      this.#fail(error)
      throw error
    }
    try {
      const writing = this.#sink!.write({ header, media: bytes })
      if (writing !== undefined || this.#lost) return this.#untilCut(writing).then(written, failed)
      written()
      return undefined
    } catch (error) {
      return failed(error)
    }
  }

  /** Settles with `work`, or rejects as soon as the connection is cut. */
  async #untilCut (work: Promise<void> | undefined): Promise<void> {
    work?.catch(() => {})
    if (this.#lost) throw kernelError('cancelled', 'The connection is closed.')
    const cut = new Promise<never>((_resolve, reject) => {
      this.#release = () => { reject(kernelError('cancelled', 'The connection was closed.')) }
    })
    await Promise.race([work, cut])
  }
}
