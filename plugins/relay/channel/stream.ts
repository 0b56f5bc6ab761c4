import { Duplex } from 'node:stream'
import type { Clock } from '../../../kernel/index.js'

/** Maximum bytes in transit that the reader has not consumed. */
export const WINDOW_BYTES = 256 * 1024
/** Merges queued parts up to this size, because each part costs memory. */
const PART_BYTES = 4 * 1024

export interface StreamHost {
  readonly clock: Pick<Clock, 'after'>
  /** Called when the stream has data to send or may send again; the host then calls `sendSome`. */
  wants (stream: MuxStream): void
  credit (stream: MuxStream, bytes: number): void
  ended (stream: MuxStream): void
  /** `whole` is true if both sides had ended their data before. */
  closed (stream: MuxStream, whole: boolean): void
}

/** One stream as a socket, with separate ends of both sides and backpressure from a stalled reader. */
export class MuxStream extends Duplex {
  readonly id: number
  readonly #host: StreamHost
  /** Number of bytes that the other side still accepts. */
  #credit = WINDOW_BYTES
  #pending: { bytes: Uint8Array, done: (error?: Error | null) => void } | undefined
  readonly #parts: Uint8Array[] = []
  #waiting = 0
  #asked = false
  #remoteEnded = false
  #localEnded = false
  #uncredited = 0
  /** As for a socket, `timeout` is emitted after this number of ms without a byte; 0 disables it. */
  timeout = 0
  #stopIdle = (): void => {}

  constructor (id: number, host: StreamHost) {
    super({ allowHalfOpen: true, highWaterMark: 64 * 1024 })
    this.id = id
    this.#host = host
  }

  /** Handles bytes from the other side. False if they exceed its credit. */
  receive (bytes: Uint8Array): boolean {
    this.#uncredited += bytes.length
    if (this.#remoteEnded || this.#uncredited > WINDOW_BYTES) return false
    this.#lives()
    const last = this.#parts.at(-1)
    if (last !== undefined && last.length + bytes.length <= PART_BYTES) {
      this.#parts[this.#parts.length - 1] = Buffer.concat([last, bytes])
    } else this.#parts.push(bytes)
    this.#waiting += bytes.length
    this.#feed()
    return true
  }

  /** Handles the end of the other side's data. False if that side had ended before. */
  receiveEnd (): boolean {
    if (this.#remoteEnded) return false
    this.#remoteEnded = true
    this.#feed()
    return true
  }

  /** Adds to the credit from the other side. False if the total exceeds a window. */
  receiveCredit (bytes: number): boolean {
    this.#credit += bytes
    if (bytes === 0 || this.#credit > WINDOW_BYTES) return false
    this.#lives()
    if (this.#pending !== undefined) this.#host.wants(this)
    return true
  }

  /** Sends up to `most` bytes; true if the stream needs another turn. */
  sendSome (most: number, send: (bytes: Uint8Array) => void): boolean {
    const pending = this.#pending
    const count = Math.min(most, this.#credit, pending?.bytes.length ?? 0)
    if (pending === undefined || count === 0) return false
    this.#credit -= count
    send(pending.bytes.subarray(0, count))
    this.#lives()
    pending.bytes = pending.bytes.subarray(count)
    if (pending.bytes.length > 0) return true
    this.#pending = undefined
    // Called after the send, so that the writer's next call, even an end, comes after these bytes.
    pending.done()
    return false
  }

  override _read (): void {
    this.#asked = true
    this.#feed()
  }

  override _write (chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    if (chunk.length === 0) { done(); return }
    this.#pending = { bytes: chunk, done }
    this.#host.wants(this)
  }

  /** Merges parts into one message, because HTTP writes a chunk in four parts. */
  override _writev (parts: { chunk: Uint8Array }[], done: (error?: Error | null) => void): void {
    this._write(Buffer.concat(parts.map(({ chunk }) => chunk)), 'buffer', done)
  }

  override _final (done: () => void): void {
    this.#localEnded = true
    this.#host.ended(this)
    done()
  }

  override _destroy (error: Error | null, done: (error?: Error | null) => void): void {
    this.#stopIdle()
    this.#parts.length = 0
    const pending = this.#pending
    this.#pending = undefined
    this.#host.closed(this, this.#localEnded && this.#remoteEnded)
    pending?.done(error ?? new Error('the stream was closed'))
    done(error)
  }

  /** As for a socket, emits `timeout` after `ms` without traffic. */
  setTimeout (ms: number, listener?: () => void): this {
    this.timeout = ms
    if (listener !== undefined) {
      if (ms === 0) this.off('timeout', listener)
      else this.once('timeout', listener)
    }
    this.#lives()
    return this
  }

  #lives (): void {
    this.#stopIdle()
    this.#stopIdle = this.timeout === 0 || this.destroyed
      ? () => {}
      : this.#host.clock.after(this.timeout, () => { this.emit('timeout') })
  }

  #feed (): void {
    while (this.#asked && this.#parts.length > 0) {
      const part = this.#parts.shift()!
      this.#waiting -= part.length
      this.#asked = this.push(part)
    }
    if (this.#remoteEnded && this.#parts.length === 0 && !this.readableEnded) this.push(null)
    else this.#giveCredit()
  }

  /** Gives credit in halves of the window, because a message for each read would be too many. */
  #giveCredit (): void {
    const taken = this.#uncredited - this.#waiting - this.readableLength
    if (taken < WINDOW_BYTES / 2 || this.#remoteEnded) return
    this.#uncredited -= taken
    this.#host.credit(this, taken)
  }
}
