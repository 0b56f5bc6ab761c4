import { randomUUID } from 'node:crypto'
import { badField, errorBody, isObject, kernelError, SvcError, toSvcError } from '../../kernel/index.js'
import { closeCodes, BoundedSocket } from './bounded-socket.js'
import { ClientInput } from './chunk-buffer.js'
import { decodeFrame, encodeFrame } from './frames/frames.js'
import { callOf, clientChunk } from './framed-body.js'
import { clientStreams } from './registry.js'
import type { Caller, ClientChunk, Clock, RouteSocket, SocketRequest } from '../../kernel/index.js'
import type { StreamTarget } from './deliver.js'
import type { FrameHeader } from './frames/frames.js'
import type { Invoker } from './invoke.js'
import type { CapabilityLimits } from './limits.js'

export interface SessionOptions { clock: Clock, limits: CapabilityLimits, invoker: Invoker }

interface SessionCall {
  controller: AbortController
  input: ClientInput
  /** Whether the call accepts chunks; null until its capability is known. */
  takesInput: boolean | null
  stopStall: () => void
}

type Message = Record<string, unknown> & { kind?: unknown, call_id?: unknown }

const KINDS = ['call', 'chunk', 'end', 'cancel']
/** Bytes that may still arrive after reading is paused. */
const OVERSHOOT_BYTES = 4 * 1024 * 1024

/** One WebSocket with any number of calls of every kind, each with numbered frames (`contract.md` 4). */
export class CapabilitySession {
  readonly #options: SessionOptions
  readonly #caller: Caller
  readonly #socket: BoundedSocket
  readonly #calls = new Map<string, SessionCall>()
  #onIdle = (): void => {}

  constructor (ws: RouteSocket, { caller, signal }: SocketRequest, options: SessionOptions) {
    const { clock, limits } = options
    this.#options = options
    this.#caller = caller
    this.#socket = new BoundedSocket(ws, clock, {
      bufferBytes: limits.sessionBufferBytes, stallMs: limits.streamStallMs,
      pingMs: limits.sessionPingMs, deadMs: limits.sessionDeadMs, graceMs: limits.graceMs
    })
    ws.on('error', () => { /* 'close' follows and ends the calls */ })
    ws.on('close', () => { this.#abandon() })
    ws.on('message', (data, isBinary) => { this.#receive(toBuffer(data), isBinary) })
    const stop = (): void => { this.#stop(signal.reason as SvcError) }
    signal.addEventListener('abort', stop)
    ws.on('close', () => { signal.removeEventListener('abort', stop) })
  }

  /**
   * Ends the calls, then the socket: terminal frames are sent first; closes after `graceMs * 2` at the
   * latest.
   */
  #stop (why: SvcError): void {
    const { clock, limits } = this.#options
    const close = (): void => { this.#socket.close(closeCodes.stopping, 'the node is stopping') }
    const cancel = clock.after(limits.graceMs * 2, close)
    this.#onIdle = () => { cancel(); close() }
    for (const call of [...this.#calls.values()]) call.controller.abort(why)
    if (this.#calls.size === 0) this.#onIdle()
  }

  #abandon (): void {
    for (const call of [...this.#calls.values()]) {
      call.controller.abort(kernelError('cancelled', 'The session was closed.'))
    }
  }

  #receive (data: Buffer, isBinary: boolean): void {
    if (this.#socket.closed) return
    this.#socket.alive()
    let message: Message
    let media: Uint8Array | null
    try {
      ({ message, media } = parse(data, isBinary))
    } catch (error) {
      this.#socket.close(closeCodes.malformed, (error as Error).message)
      return
    }
    const callId = typeof message.call_id === 'string' ? message.call_id : null
    try {
      this.#handle(message, media, callId, data.byteLength)
    } catch (error) {
      this.#refuse(callId, toSvcError(error))
    }
  }

  #handle (message: Message, media: Uint8Array | null, callId: string | null, bytes: number): void {
    if (message.kind === 'call') {
      this.#begin(message, bytes)
      return
    }
    const call = callId === null ? undefined : this.#calls.get(callId)
    if (call === undefined) {
      throw kernelError('command_unknown', 'No call with this call_id is open on this socket.',
        { param: 'call_id' })
    }
    if (message.kind === 'cancel') call.controller.abort(kernelError('cancelled'))
    else if (call.takesInput === false) throw badField('kind', 'requires a capability with input')
    else if (call.input.ended) throw badField('kind', 'the input of this call has ended')
    else if (message.kind === 'end') call.input.end()
    else this.#chunk(call, clientChunk(message, media), bytes)
  }

  #chunk (call: SessionCall, chunk: ClientChunk, bytes: number): void {
    const { inputBytes, payloadBytes } = this.#options.limits
    if (bytes > payloadBytes) {
      call.controller.abort(kernelError('payload_too_large',
        `A chunk has ${bytes} bytes; at most ${payloadBytes} are accepted.`))
      return
    }
    call.input.push(chunk, bytes)
    if (call.input.bytes > inputBytes + OVERSHOOT_BYTES) {
      call.controller.abort(kernelError('overloaded', 'The client sent far more than the capability read.'))
    }
  }

  #begin (message: Message, bytes: number): void {
    const { kind: _, media: _media, ...fields } = message
    const { limits } = this.#options
    const request = callOf(fields)
    const callId = request.call_id ?? randomUUID()
    if (this.#calls.has(callId)) throw badField('call_id', 'is in use by an open call on this socket')
    if (this.#calls.size >= limits.sessionCalls) {
      throw kernelError('overloaded',
        `${this.#calls.size} calls are open on this socket, which is the limit.`)
    }
    const call: SessionCall = {
      controller: new AbortController(),
      input: new ClientInput({ chunks: limits.inputChunks, bytes: limits.inputBytes },
        () => { this.#regulate(call) }),
      takesInput: null,
      stopStall: () => {}
    }
    this.#calls.set(callId, call)
    void this.#run(callId, call, { ...request, call_id: callId, bytes })
  }

  async #run (callId: string, call: SessionCall, request: Parameters<Invoker['stream']>[0]): Promise<void> {
    const { controller: { signal }, input } = call
    const origin = { caller: this.#caller, requestId: randomUUID(), signal, input }
    try {
      await this.#options.invoker.stream(request, origin, (capability) => {
        call.takesInput = clientStreams(capability.descriptor.io_mode)
        if (!call.takesInput) call.input.close()
        return this.#target()
      })
      this.#forget(callId, call)
    } catch (error) {
      this.#forget(callId, call)
      this.#refuse(callId, toSvcError(error), origin.requestId)
    } finally {
      if (this.#calls.size === 0) this.#onIdle()
    }
  }

  #forget (callId: string, call: SessionCall): void {
    this.#calls.delete(callId)
    call.input.close()
  }

  #target (): StreamTarget {
    const { limits } = this.#options
    return {
      raw: false,
      throwsEarly: false,
      room: { chunks: limits.streamChunks, bytes: limits.streamBytes },
      open: () => ({
        write: (frame) => this.#socket.send(encodeFrame(frame)), end: async () => {}, cut: () => {}
      })
    }
  }

  /** Pauses reading while a handler has too much input; aborts the call if the pause lasts too long. */
  #regulate (call: SessionCall): void {
    call.stopStall()
    call.stopStall = () => {}
    if (call.input.full) {
      const { streamStallMs } = this.#options.limits
      call.stopStall = this.#options.clock.after(streamStallMs, () => {
        call.controller.abort(kernelError('timeout',
          `The capability read no input for ${streamStallMs / 1000} s.`))
        call.input.close()
      })
    }
    this.#socket.pause([...this.#calls.values()].some((c) => c.input.full))
  }

  /** Reports a refusal: a refused call gets a terminal frame; any other problem becomes an `error` frame. */
  #refuse (callId: string | null, error: SvcError, requestId: string = randomUUID()): void {
    const ends = callId !== null && !this.#calls.has(callId) && error.reason !== 'command_unknown'
    const kind = !ends ? 'error' : error.reason === 'cancelled' ? 'cancelled' : 'failed'
    const header: FrameHeader = {
      call_id: callId, sequence: 0, kind, payload: null, media: null,
      error: kind === 'cancelled' ? null : errorBody(error, requestId).error
    }
    if (!this.#socket.offer(encodeFrame({ header, media: null }))) {
      this.#socket.close(closeCodes.flooding, 'too many invalid messages; the replies are not read')
    }
  }
}

/** Parses a text message (JSON) or a binary one (a frame). Throws Error. */
function parse (data: Buffer, isBinary: boolean): { message: Message, media: Uint8Array | null } {
  const { header: message, media: bytes }: { header: unknown, media: Uint8Array | null } =
    isBinary ? decodeFrame(data) : { header: JSON.parse(data.toString()), media: null }
  if (!isObject(message)) throw new Error('not a JSON object')
  const { kind, media } = message as Message
  if (typeof kind !== 'string' || !KINDS.includes(kind)) {
    throw new Error(`kind must be one of ${KINDS.join(', ')}`)
  }
  if ((media ?? null) !== null && (kind !== 'chunk' || bytes === null)) {
    throw new Error('media must be in a chunk that is a binary message')
  }
  return { message: message as Message, media: bytes }
}

function toBuffer (data: Buffer | ArrayBuffer | Buffer[]): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data)
  return Buffer.isBuffer(data) ? data : Buffer.from(data)
}
