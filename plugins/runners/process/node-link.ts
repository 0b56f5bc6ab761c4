import { Socket } from 'node:net'
import { encodeFrame, FrameParser } from './frames.js'
import type { Frame } from './frames.js'

/** The file descriptor the node hands a runner for its frames. */
const FRAMES_FD = 3

/** The runner's end of the frame socket. */
export class NodeLink {
  readonly #socket = new Socket({ fd: FRAMES_FD, readable: true, writable: true })
  #parser = new FrameParser(0xffff_ffff)

  /** `onClose` is called when the node has closed its end or broken the protocol. */
  constructor (onFrame: (frame: Frame) => void, onClose: () => void) {
    this.#socket.on('data', (bytes: Buffer) => {
      this.#parser.push(bytes)
      for (let frame = this.#parser.next(); frame !== undefined; frame = this.#parser.next()) onFrame(frame)
    })
    this.#socket.on('error', onClose)
    this.#socket.on('end', onClose)
    this.#socket.on('close', onClose)
  }

  /** Sends one frame; returns its size on the wire. The kernel takes it at once unless it is behind. */
  send (kind: number, task: number, header: object, media?: Uint8Array): number {
    return this.sendEncoded(encodeFrame(kind, task, header, media))
  }

  sendEncoded (pieces: Uint8Array[]): number {
    let bytes = 0
    this.#socket.cork()
    for (const piece of pieces) {
      bytes += piece.byteLength
      this.#socket.write(piece)
    }
    this.#socket.uncork()
    return bytes
  }

  /** True while something sent has not yet left this process. */
  get behind (): boolean { return this.#socket.writableLength > 0 }

  /** Resolves when everything sent so far has left this process. */
  flushed (): Promise<void> {
    return new Promise((resolve) => { this.#socket.write('', () => { resolve() }) })
  }
}
