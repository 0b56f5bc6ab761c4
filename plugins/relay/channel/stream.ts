import { Duplex } from 'node:stream'
import type { Clock } from '../../../kernel/index.js'

/** Limit on the bytes that are sent but not yet consumed by the reader. */
export const WINDOW_BYTES = 256 * 1024
/** Queued parts are merged up to this many bytes, because each part costs extra memory. */
const PART_BYTES = 4 * 1024

export interface StreamHost {
  readonly clock: Pick<Clock, 'after'>
  /** Called when the stream has data to send, or when it may send again; then the host calls `sendSome`. */
  wants (stream: MuxStream): void
  credit (stream: MuxStream, bytes: number): void
  ended (stream: MuxStream): void
  /** `whole` is true if both sides had sent all their data before the stream closed. */
  closed (stream: MuxStream, whole: boolean): void
}

/** A stream as a socket: each side can end separately, and a stalled reader causes backpressure. */
export class MuxStream extends Duplex {
  readonly id: number
  readonly #host: StreamHost
  /** Number of bytes that this side may still send. */
  #credit = WINDOW_BYTES
  #pending: { bytes: Uint8Array, done: (error?: Error | null) => void } | undefined
  readonly #parts: Uint8Array[] = []
  #waiting = 0
  #asked = false
  #remoteEnded = false
  #localEnded = false
  #uncredited = 0
  /** Milliseconds without traffic after which `timeout` is emitted, as by a socket; 0 disables it. */
  timeout = 0
  #stopIdle = (): void => {}

  constructor (id: number, host: StreamHost) {
    super({ allowHalfOpen: true, highWaterMark: 64 * 1024 })
    this.id = id
    this.#host = host
  }

  /** Handles bytes from the other side. False if the other side exceeds its credit. */
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

  /** Handles the end of the other side's data. Returns false if the other side had already ended it. */
  receiveEnd (): boolean {
    if (this.#remoteEnded) return false
    this.#remoteEnded = true
    this.#feed()
    return true
  }

  /** Adds credit that the other side gives. False if the sum exceeds WINDOW_BYTES. */
  receiveCredit (bytes: number): boolean {
    this.#credit += bytes
    if (bytes === 0 || this.#credit > WINDOW_BYTES) return false
    this.#lives()
    if (this.#pending !== undefined) this.#host.wants(this)
    return true
  }

  /** Sends up to `most` bytes; returns true if the stream has more to send and needs another turn. */
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
    // Call `done` only after sending, so that what the writer does next, even ending, follows these bytes.
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

  /** Merges the queued chunks into one write, because HTTP writes each of its chunks in four parts. */
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

  /** Emits `timeout` after `ms` without traffic, as a socket does. */
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

  /** Gives credit only when half of the window is consumed, to avoid a message for each read. */
  #giveCredit (): void {
    const taken = this.#uncredited - this.#waiting - this.readableLength
    if (taken < WINDOW_BYTES / 2 || this.#remoteEnded) return
    this.#uncredited -= taken
    this.#host.credit(this, taken)
  }
}
