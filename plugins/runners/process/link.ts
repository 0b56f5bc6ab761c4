import { ProtocolError, reasonOf } from './errors.js'
import { readMessage, type RunnerMessage } from './messages.js'
import { encodeFrame, FrameParser, type Frame } from './protocol.js'
import { RateMeter, type RunnerLimits } from './limits.js'
import type { Clock } from '../../../kernel/index.js'
import type { Duplex } from 'node:stream'

/** Limit on frames handled before other event-loop work gets a turn. */
const FRAMES_PER_TURN = 256

interface LinkHandlers {
  /** Called for a valid message with its frame. A ProtocolError thrown here breaks the link. */
  message (message: RunnerMessage, frame: Frame): void
  /** Called when the runner has violated the protocol; reading stops. */
  broken (error: ProtocolError): void
  /** Called when no more frames follow; `unread` counts the bytes received of an unfinished frame. */
  closed (unread: number): void
}

export class Link {
  readonly #socket: Duplex
  readonly #parser: FrameParser
  readonly #control: RateMeter
  readonly #clock: Clock
  readonly #handlers: LinkHandlers
  #broken = false
  #closed = false

  constructor (socket: Duplex, limits: RunnerLimits, clock: Clock, handlers: LinkHandlers) {
    this.#socket = socket
    this.#parser = new FrameParser(limits.maxFrameBytes)
    this.#control = new RateMeter(limits.controlFramesPerSecond)
    this.#clock = clock
    this.#handlers = handlers
    socket.on('data', (bytes: Buffer) => { this.#onData(bytes) })
    socket.on('error', () => {})
    socket.on('end', () => { this.#close() })
    socket.on('close', () => { this.#close() })
  }

  get closed (): boolean { return this.#closed }

  send (kind: number, task: number, header: object, media?: Uint8Array): void {
    if (this.#closed || !this.#socket.writable) return
    for (const piece of encodeFrame(kind, task, header, media)) this.#socket.write(piece)
  }

  finish (): void {
    this.#close()
    this.#socket.destroy()
  }

  #onData (bytes: Buffer): void {
    if (this.#broken) return
    this.#parser.push(bytes)
    this.#handleFrames(FRAMES_PER_TURN)
  }

  #handleFrames (most: number): void {
    try {
      for (let handled = 0; handled < most; handled++) {
        const frame = this.#parser.next()
        if (frame === undefined) return
        this.#handle(frame)
      }
    } catch (error) {
      this.#break(error instanceof ProtocolError ? error : new ProtocolError(reasonOf(error)))
      return
    }
    this.#socket.pause()
    setImmediate(() => {
      if (this.#broken) return
      this.#socket.resume()
      this.#handleFrames(FRAMES_PER_TURN)
    })
  }

  #handle (frame: Frame): void {
    const message = readMessage(frame)
    // Chunks and reads of input are limited by credit.
    if (!['chunk', 'read'].includes(message.type) && !this.#control.admit(this.#clock.mono())) {
      throw new ProtocolError('too many control frames in one second')
    }
    this.#handlers.message(message, frame)
  }

  #break (error: ProtocolError): void {
    this.#broken = true
    this.#socket.resume()
    this.#handlers.broken(error)
  }

  #close (): void {
    if (this.#closed) return
    this.#closed = true
    if (!this.#broken) this.#handleFrames(Infinity)
    this.#handlers.closed(this.#broken ? 0 : this.#parser.pending)
  }
}
