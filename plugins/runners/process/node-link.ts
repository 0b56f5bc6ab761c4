import { Socket } from 'node:net'
import { encodeFrame, FrameParser, type Frame } from './protocol.js'

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
