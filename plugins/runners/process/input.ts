/** The client's bytes for a task on their way to its reader: a runner, or the node that serves the task. */
import { EngineError, type EngineTask } from '../../../kernel/api/engine.js'
import { ProtocolError } from './errors.js'
import { TO_RUNNER, type Frame } from './protocol.js'

/** Limit on the bytes that are sent ahead of the reader. */
export const INPUT_AHEAD_BYTES = 1024 ** 2
export const INPUT_PIECE_BYTES = 256 * 1024
/** Bytes counted for each piece in addition to its own, which limits the number of tiny pieces. */
const PIECE_COST = 1024

const costOf = (piece: Uint8Array): number => piece.byteLength + PIECE_COST

/**
 * Sends the input of a task as its reader asks for it: not before the reader has begun to read, and never
 * more than INPUT_AHEAD_BYTES ahead, whatever the reader claims. `now` returns monotonic ms.
 */
export class InputSender {
  readonly #input: AsyncIterable<Uint8Array>
  readonly #send: (kind: number, header: object, media?: Uint8Array) => void
  readonly #now: () => number
  #iterator: AsyncIterator<Uint8Array> | undefined
  #sent = 0
  #read = 0
  #ended = false
  #movedAt: number | null = null
  #wake: () => void = () => {}

  constructor (
    input: AsyncIterable<Uint8Array>, send: (kind: number, header: object, media?: Uint8Array) => void,
    now: () => number
  ) {
    this.#input = input
    this.#send = send
    this.#now = now
  }

  /** True while the reader waits for bytes that the client has not sent. */
  get starved (): boolean {
    return this.#iterator !== undefined && !this.#ended && this.#read === this.#sent
  }

  /** Time of the reader's last progress, or of the end of its last wait; null before it asks for input. */
  get movedAt (): number | null { return this.#movedAt }

  /** Call with each `read` message. Throws ProtocolError if it claims more than was sent. */
  onRead (total: number): void {
    if (total < this.#read || total > this.#sent) {
      throw new ProtocolError(`a reader claims ${total} bytes of input, of ${this.#sent}`)
    }
    this.#read = total
    this.#movedAt = this.#now()
    this.#wake()
    if (this.#iterator === undefined && !this.#ended) {
      this.#iterator = this.#input[Symbol.asyncIterator]()
      void this.#run(this.#iterator)
    }
  }

  /** Sends nothing more; ends the input if it was read. */
  stop (): void {
    if (this.#ended) return
    this.#ended = true
    this.#wake()
    void (async () => await this.#iterator?.return?.())().catch(() => {})
  }

  async #run (iterator: AsyncIterator<Uint8Array>): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await iterator.next()
        if (done === true) break
        for (let at = 0; at < value.byteLength; at += INPUT_PIECE_BYTES) {
          const piece = value.subarray(at, at + INPUT_PIECE_BYTES)
          while (!this.#ended && this.#sent + costOf(piece) - this.#read > INPUT_AHEAD_BYTES) {
            await new Promise<void>((resolve) => { this.#wake = resolve })
          }
          this.#emit(TO_RUNNER.input, {}, piece)
        }
      }
      this.#emit(TO_RUNNER.inputEnd, {})
    } catch (error) {
      this.#emit(TO_RUNNER.inputFail, failureOf(error))
    }
  }

  #emit (kind: number, header: object, piece?: Uint8Array): void {
    if (this.#ended) return
    if (this.starved) this.#movedAt = this.#now()
    if (piece === undefined) this.#ended = true
    else this.#sent += costOf(piece)
    this.#send(kind, header, piece)
  }
}

/** Errors with a reason are meant for clients; the text of others may contain paths. */
function failureOf (error: unknown): { reason: string, message: string } {
  const { reason, message } = (error ?? {}) as { reason?: unknown, message?: unknown }
  return typeof reason === 'string' && typeof message === 'string'
    ? { reason, message }
    : { reason: 'cancelled', message: 'The input of the task ended early.' }
}

/** The input of a task at its reader, which may iterate once. `report` gets the total read so far. */
export class TaskInput implements AsyncIterable<Uint8Array> {
  readonly #report: (total: number) => void
  readonly #pieces: Uint8Array[] = []
  #waiting = 0
  #read = 0
  #reported = 0
  #end: { error: Error | null } | null = null
  #wake: () => void = () => {}

  constructor (report: (total: number) => void) { this.#report = report }

  /** Takes a frame of the sender. Throws ProtocolError if it was sent too far ahead. */
  onFrame ({ kind, header, media }: Frame): void {
    if (kind === TO_RUNNER.inputEnd) this.end(null)
    else if (kind === TO_RUNNER.inputFail) {
      this.end(new EngineError(String(header['reason']), String(header['message'])))
    } else if (kind !== TO_RUNNER.input) throw new ProtocolError(`frame of kind ${kind} in a task's input`)
    else if (this.#end === null) {
      this.#waiting += costOf(media)
      if (this.#waiting > INPUT_AHEAD_BYTES) throw new ProtocolError('input came faster than it was read')
      this.#pieces.push(media)
      this.#wake()
    }
  }

  end (error: Error | null): void {
    this.#end ??= { error }
    this.#wake()
  }

  /** Ends the input for a task that is cancelled, without what was not read. */
  cancel (): void {
    this.#pieces.length = 0
    this.end(new EngineError('cancelled', 'The task was cancelled.'))
  }

  async * [Symbol.asyncIterator] (): AsyncGenerator<Uint8Array, void> {
    this.#report(0)
    for (;;) {
      const piece = this.#pieces.shift()
      if (piece !== undefined) {
        yield piece
        // Count a piece once the reader asks for the next one, so that a starved reader has no work left.
        this.#waiting -= costOf(piece)
        this.#read += costOf(piece)
        if (this.#pieces.length === 0 || this.#read - this.#reported >= INPUT_AHEAD_BYTES / 4) {
          this.#reported = this.#read
          this.#report(this.#read)
        }
      } else if (this.#end !== null) {
        if (this.#end.error !== null) throw this.#end.error
        return
      } else await new Promise<void>((resolve) => { this.#wake = resolve })
    }
  }
}

/** The task with an input that calls `onRead` when its first byte is requested. */
export function withInput (task: EngineTask, onRead: () => void): EngineTask {
  const { input } = task
  if (input === undefined) return task
  const noted = async function * (): AsyncGenerator<Uint8Array> {
    onRead()
    yield * input
  }
  return { ...task, input: noted() }
}
