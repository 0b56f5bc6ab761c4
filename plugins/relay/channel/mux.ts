import { MuxStream, type StreamHost } from './stream.js'
import { FRAME_BYTES } from './transport.js'
import type { Clock } from '../../../kernel/index.js'

export const STREAMS = 256

interface MuxOptions {
  readonly clock: Pick<Clock, 'after'>
  /** Sends frames in order. Returns false if the connection's buffer is full; `drained` is called later. */
  readonly send: (frame: Uint8Array) => boolean
  /** Called on the node for each stream that the device opens; absent on the device, which opens streams. */
  readonly accept?: (stream: MuxStream) => void
}

/** Multiplexes streams over one connection; turns and credit keep a slow reader from delaying others. */
export class Mux {
  readonly #options: MuxOptions
  readonly #streams = new Map<number, MuxStream>()
  /** Streams with data to send, in round-robin order. */
  readonly #wanting = new Set<MuxStream>()
  readonly #waiting: { resolve: (stream: MuxStream) => void, reject: (error: Error) => void }[] = []
  readonly #host: StreamHost
  #last = 0
  #full = false
  #pumping = false
  #error: Error | undefined

  constructor (options: MuxOptions) {
    this.#options = options
    this.#host = {
      clock: options.clock,
      wants: (stream) => {
        this.#wanting.add(stream)
        this.#pump()
      },
      credit: (stream, bytes) => { this.#send({ kind: 'credit', stream: stream.id, bytes }) },
      ended: (stream) => { this.#send({ kind: 'end', stream: stream.id }) },
      closed: (stream, whole) => {
        this.#wanting.delete(stream)
        if (!this.#streams.delete(stream.id)) return
        if (!whole) this.#send({ kind: 'reset', stream: stream.id })
        this.#serveWaiting()
      }
    }
  }

  get size (): number { return this.#streams.size }

  /** Opens a stream; waits while STREAMS are open. Throws if the connection has ended. */
  async open (signal?: AbortSignal): Promise<MuxStream> {
    if (this.#error !== undefined) throw this.#error
    signal?.throwIfAborted()
    if (this.#streams.size < STREAMS) return this.#begin()
    return await new Promise((resolve, reject) => {
      const waiting = { resolve, reject }
      this.#waiting.push(waiting)
      signal?.addEventListener('abort', () => {
        const at = this.#waiting.indexOf(waiting)
        if (at < 0) return
        this.#waiting.splice(at, 1)
        reject(signal.reason as Error)
      }, { once: true })
    })
  }

  /** Handles a frame from the other side. Throws ProtocolError; the caller must then end the connection. */
  receive (input: Uint8Array): void {
    if (this.#error !== undefined) return
    const frame = readFrame(input)
    if (frame.kind === 'alive') return
    if (frame.kind === 'open') {
      this.#accept(frame.stream)
      return
    }
    if (frame.stream === 0 || frame.stream > this.#last) {
      throw new ProtocolError(`a frame of stream ${frame.stream}, which was never opened`)
    }
    const stream = this.#streams.get(frame.stream)
    // Ignore a frame for a stream that this side has reset, since the other side may not know it yet.
    if (stream === undefined) return
    const fine = dispatch(stream, frame)
    if (!fine) throw new ProtocolError(`stream ${frame.stream} exceeded its limits`)
  }

  beat (): void { this.#send({ kind: 'alive', stream: 0 }) }

  drained (): void {
    this.#full = false
    this.#pump()
  }

  end (error: Error): void {
    if (this.#error !== undefined) return
    this.#error = error
    for (const stream of [...this.#streams.values()]) stream.destroy(error)
    for (const { reject } of this.#waiting.splice(0)) reject(error)
  }

  #begin (): MuxStream {
    const stream = this.#add(++this.#last)
    this.#send({ kind: 'open', stream: stream.id })
    return stream
  }

  #accept (id: number): void {
    const { accept } = this.#options
    if (accept === undefined) throw new ProtocolError('only the device opens streams')
    if (id !== this.#last + 1) throw new ProtocolError(`stream ${id} after stream ${this.#last}`)
    if (this.#streams.size >= STREAMS) throw new ProtocolError(`more than ${STREAMS} streams`)
    this.#last = id
    accept(this.#add(id))
  }

  #add (id: number): MuxStream {
    const stream = new MuxStream(id, this.#host)
    // Without a listener, a reset by the other side would be an uncaught exception.
    stream.on('error', () => {})
    this.#streams.set(id, stream)
    return stream
  }

  #serveWaiting (): void {
    if (this.#error !== undefined || this.#streams.size >= STREAMS) return
    this.#waiting.shift()?.resolve(this.#begin())
  }

  #send (frame: Frame): void {
    if (this.#error === undefined && !this.#options.send(writeFrame(frame))) this.#full = true
  }

  #pump (): void {
    if (this.#pumping) return
    this.#pumping = true
    while (!this.#full && this.#wanting.size > 0) {
      const stream: MuxStream = this.#wanting.values().next().value!
      this.#wanting.delete(stream)
      const more = stream.sendSome(DATA_BYTES, (bytes) => {
        this.#send({ kind: 'data', stream: stream.id, bytes })
      })
      if (more) this.#wanting.add(stream)
    }
    this.#pumping = false
  }
}

/** Passes a frame to its stream; false if the other side broke the protocol. */
function dispatch (stream: MuxStream, frame: Exclude<Frame, { kind: 'open' | 'alive' }>): boolean {
  switch (frame.kind) {
    case 'data': return stream.receive(frame.bytes)
    case 'credit': return stream.receiveCredit(frame.bytes)
    case 'end': return stream.receiveEnd()
    case 'reset':
      stream.destroy(Object.assign(new Error('the other side reset the stream'), { code: 'ECONNRESET' }))
      return true
  }
}

/** Kinds of frames. A frame has a kind (one byte), a stream id (four bytes, big-endian) and a payload. */
export const kinds = { open: 1, data: 2, credit: 3, end: 4, reset: 5, alive: 6 } as const

const HEAD_BYTES = 5

/** Maximum stream bytes in one frame, small enough for streams to take turns. */
export const DATA_BYTES = 32 * 1024

export type Frame =
  /** Opens a stream. Only the device does so; each stream's number is one above the previous one. */
  | { readonly kind: 'open', readonly stream: number }
  | { readonly kind: 'data', readonly stream: number, readonly bytes: Uint8Array }
  /** Sent when the reader has consumed `bytes`, so that the other side may send as many again. */
  | { readonly kind: 'credit', readonly stream: number, readonly bytes: number }
  | { readonly kind: 'end', readonly stream: number }
  | { readonly kind: 'reset', readonly stream: number }
  /** A keep-alive for the connection; it belongs to no stream, so `stream` is 0. */
  | { readonly kind: 'alive', readonly stream: number }

/** Thrown if the other side broke the protocol; the caller must then end the connection. */
export class ProtocolError extends Error { override readonly name = 'ProtocolError' }

export function writeFrame (frame: Frame): Uint8Array {
  const rest = frame.kind === 'data' ? frame.bytes.length : frame.kind === 'credit' ? 4 : 0
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + rest)
  bytes.writeUInt8(kinds[frame.kind], 0)
  bytes.writeUInt32BE(frame.stream, 1)
  if (frame.kind === 'data') bytes.set(frame.bytes, HEAD_BYTES)
  if (frame.kind === 'credit') bytes.writeUInt32BE(frame.bytes, HEAD_BYTES)
  return bytes
}

const names = new Map(Object.entries(kinds).map(([name, kind]) => [kind as number, name as Frame['kind']]))

/** Parses a frame. Throws ProtocolError. */
export function readFrame (input: Uint8Array): Frame {
  const bytes = Buffer.from(input.buffer, input.byteOffset, input.byteLength)
  if (bytes.length < HEAD_BYTES || bytes.length > FRAME_BYTES) {
    throw new ProtocolError(`a frame of ${bytes.length} bytes`)
  }
  const kind = names.get(bytes[0]!)
  const stream = bytes.readUInt32BE(1)
  const rest = bytes.length - HEAD_BYTES
  if (kind === 'data' && rest > 0 && rest <= DATA_BYTES) {
    return { kind, stream, bytes: bytes.subarray(HEAD_BYTES) }
  }
  if (kind === 'credit' && rest === 4) return { kind, stream, bytes: bytes.readUInt32BE(HEAD_BYTES) }
  if (kind === undefined || kind === 'data' || kind === 'credit' || rest > 0) {
    throw new ProtocolError(`a frame of kind ${bytes[0]} with ${rest} bytes`)
  }
  return { kind, stream }
}
