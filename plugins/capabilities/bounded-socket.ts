import { kernelError, type Clock, type RouteSocket } from '../../kernel/index.js'

/** Close codes of the capability session. */
export const closeCodes = {
  /** The message was neither a frame nor a JSON object, or had an unknown kind. */
  malformed: 4400,
  /** The peer read nothing, or sent neither a message nor a pong, for too long. */
  slow: 4408,
  stopping: 4410,
  /** The peer sent invalid messages faster than it read the replies. */
  flooding: 4429
} as const

const OPEN = 1
/** RFC 6455 allows 123 bytes for the reason in a close frame. */
const REASON_CHARS = 120

export interface SocketLimits {
  bufferBytes: number
  stallMs: number
  pingMs: number
  deadMs: number
  graceMs: number
}

/**
 * A WebSocket with the limits that `ws` lacks: at most `bufferBytes` are queued (a single message may be
 * larger), and a peer that reads nothing for `stallMs` or is silent for `deadMs` is dropped.
 */
export class BoundedSocket {
  readonly #ws: RouteSocket
  readonly #clock: Clock
  readonly #limits: SocketLimits
  readonly #failing = new Set<(error: Error) => void>()
  #waiting: (() => void)[] = []
  #sending = 0
  #stopStall = (): void => {}
  #stopPing: () => void
  #lastSeenMs: number
  #paused = false
  #closed = false

  constructor (ws: RouteSocket, clock: Clock, limits: SocketLimits) {
    this.#ws = ws
    this.#clock = clock
    this.#limits = limits
    this.#lastSeenMs = clock.mono()
    this.#stopPing = clock.every(limits.pingMs, () => { this.#ping() })
    ws.on('pong', () => { this.alive() })
    ws.on('close', () => { this.#end() })
  }

  get closed (): boolean { return this.#closed }

  alive (): void { this.#lastSeenMs = this.#clock.mono() }

  /** Resolves once the message has left this process. Rejects when the socket closes. */
  async send (bytes: Uint8Array, binary = true): Promise<void> {
    const fits = (): boolean => {
      const waiting = this.#ws.bufferedAmount
      return waiting === 0 || waiting + bytes.byteLength <= this.#limits.bufferBytes
    }
    while (!this.#closed && !fits()) {
      await new Promise<void>((resolve) => { this.#waiting.push(resolve) })
    }
    await this.#sendNow(bytes, binary)
  }

  /** Sends the message if the buffer has space; otherwise drops it and returns false. */
  offer (bytes: Uint8Array): boolean {
    if (this.#ws.bufferedAmount + bytes.byteLength > this.#limits.bufferBytes) return false
    this.#sendNow(bytes).catch(() => {})
    return true
  }

  /** Pauses or resumes reading; a paused peer cannot answer pings, so its silence does not count. */
  pause (on: boolean): void {
    if (on === this.#paused || this.#closed) return
    this.#paused = on
    if (on) this.#ws.pause()
    else {
      this.alive()
      this.#ws.resume()
    }
  }

  /** Closes with one of `closeCodes`; terminates a peer that does not answer. */
  close (code: number, reason: string): void {
    if (this.#closed) return
    this.pause(false)
    if (this.#ws.readyState === OPEN) this.#ws.close(code, reason.slice(0, REASON_CHARS))
    this.#clock.after(this.#limits.graceMs, () => { this.#ws.terminate() })
    this.#end()
  }

  #sendNow (bytes: Uint8Array, binary = true): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed || this.#ws.readyState !== OPEN) {
        reject(gone())
        return
      }
      this.#failing.add(reject)
      this.#sending++
      if (this.#sending === 1) this.#watchStall()
      this.#ws.send(bytes, { binary }, (error) => {
        this.#failing.delete(reject)
        this.#sending--
        this.#progress()
        if (error) reject(gone())
        else resolve()
      })
    })
  }

  #progress (): void {
    if (this.#sending > 0) this.#watchStall()
    else this.#stopStall()
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }

  #watchStall (): void {
    this.#stopStall()
    if (this.#closed) return
    this.#stopStall = this.#clock.after(this.#limits.stallMs, () => {
      const seconds = this.#limits.stallMs / 1000
      this.#drop(kernelError('slow_consumer', `The peer read nothing for ${seconds} seconds.`))
    })
  }

  #ping (): void {
    const silentMs = this.#clock.mono() - this.#lastSeenMs
    if (this.#paused || this.#ws.readyState !== OPEN) return
    if (silentMs >= this.#limits.deadMs) {
      this.#drop(kernelError('cancelled', `The peer was silent for ${silentMs / 1000} s.`))
    } else {
      this.#ws.ping()
    }
  }

  /** Terminates immediately, because a peer that does not read would not read a close frame either. */
  #drop (error: Error): void {
    this.#end(error)
    this.#ws.close(closeCodes.slow, error.message.slice(0, REASON_CHARS))
    this.#ws.terminate()
  }

  #end (error: Error = gone()): void {
    if (this.#closed) return
    this.#closed = true
    this.#stopStall()
    this.#stopPing()
    for (const fail of [...this.#failing]) fail(error)
    for (const wake of this.#waiting) wake()
  }
}

const gone = (): Error => kernelError('cancelled', 'The socket is closed.')
