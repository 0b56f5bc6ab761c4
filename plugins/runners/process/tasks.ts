import { CreditReturn, CreditWindow } from './credits.js'
import { ProtocolError, RunnerError } from './errors.js'
import type { EngineChunk } from '../../../kernel/api/engine.js'
import type { RunnerLimits } from './limits.js'

type Outcome = { readonly error: RunnerError | null }

/** What a channel asks of the runner process it belongs to. */
export interface ChannelIo {
  grant (chunks: number, bytes: number): void
  cancel (): void
}

/**
 * One task as the node sees it: the chunks that have come and are not yet read, its credit, and its one
 * terminal. The reader's end (`settle`) and the runner's end (`release`) are told apart: a cancelled task
 * is over for the reader at once, but holds its place until the runner has let go of it.
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
  /** Chunks that have come and are not yet read. */
  get waiting (): number { return this.#queue.length }
  get cancelledAt (): number | null { return this.#cancelledAt }

  /** Since when the reader has been waiting for a second or later chunk; null when it is not. */
  get idleSince (): number | null {
    return this.settled || !this.#window.open || this.#queue.length > 0 ? null : this.#lastChunkAt
  }

  /**
   * Takes a chunk in: duplicates are dropped, a gap fails the task, one without credit is a ProtocolError.
   * Returns what happened, for the record.
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
