import { ProtocolError, reasonOf } from './errors.js'
import { encodeFrame, FrameParser, readMessage } from './protocol.js'
import type { Frame, RunnerMessage } from './protocol.js'
import { RateMeter } from './limits.js'
import type { RunnerLimits } from './limits.js'
import type { Clock } from '../../../kernel/index.js'
import type { Duplex } from 'node:stream'
import { Socket } from 'node:net'

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

  send (kind: number, task: number, header: object): void {
    if (this.#closed || !this.#socket.writable) return
    for (const piece of encodeFrame(kind, task, header)) this.#socket.write(piece)
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
    if (message.type !== 'chunk' && !this.#control.admit(this.#clock.mono())) {
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

const FRAMES_FD = 3

export class NodeLink {
  readonly #socket = new Socket({ fd: FRAMES_FD, readable: true, writable: true })
  #parser = new FrameParser(0xffff_ffff)
  /** True while later frames of this event-loop turn are corked until its end. */
  #gathers = false

  /** `onClose` is called when the node closes its end of the socket or violates the protocol. */
  constructor (onFrame: (frame: Frame) => void, onClose: () => void) {
    this.#socket.on('data', (bytes: Buffer) => {
      this.#parser.push(bytes)
      for (let frame = this.#parser.next(); frame !== undefined; frame = this.#parser.next()) onFrame(frame)
    })
    this.#socket.on('error', onClose)
    this.#socket.on('end', onClose)
    this.#socket.on('close', onClose)
  }

  send (kind: number, task: number, header: object, media?: Uint8Array): void {
    this.sendEncoded(encodeFrame(kind, task, header, media))
  }

  /**
   * Sends one frame immediately, unless a frame with `gathers` was sent earlier in this event-loop turn:
   * later frames of such a turn are sent together at its end.
   */
  sendEncoded (pieces: Uint8Array[], gathers = false): void {
    this.#socket.cork()
    for (const piece of pieces) this.#socket.write(piece)
    this.#socket.uncork()
    if (!gathers || this.#gathers) return
    this.#gathers = true
    this.#socket.cork()
    setImmediate(() => {
      this.#gathers = false
      this.#socket.uncork()
    })
  }

  /** True while sent data is still buffered in this process. */
  get behind (): boolean { return this.#socket.writableLength > 0 }

  /** Resolves when everything sent so far has left this process. */
  flushed (): Promise<void> {
    return new Promise((resolve) => { this.#socket.write('', () => { resolve() }) })
  }
}
