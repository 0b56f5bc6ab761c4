import { once } from 'node:events'
import { WebSocket } from 'ws'
import { kernelError, KEY_BYTES, outgoingAgent, type Clock } from '../../../kernel/index.js'
import { Mux } from './mux.js'
import { Initiator, MESSAGE_BYTES, Responder, type Session } from './noise.js'
import { agreementOf, type Agreement } from './suite.js'
import { Transport } from './transport.js'
import { socketUrl } from '../wire.js'
import type { MuxStream } from './stream.js'

const HANDSHAKE_MS = 10_000
/** Streams pause when the WebSocket buffers more than FULL_BYTES, and resume below ROOM_BYTES. */
const FULL_BYTES = 512 * 1024
const ROOM_BYTES = 128 * 1024

/** Times that detect a lost peer within 45 s, but tolerate two lost keep-alives. */
export const pulseTimes = {
  checkMs: 5000,
  /** Milliseconds without sending after which this end sends a keep-alive. */
  quietMs: 12_000,
  /** Milliseconds of silence after which the peer counts as gone. */
  timeoutMs: 40_000
}
export type PulseTimes = Readonly<typeof pulseTimes>

export interface PulseOptions {
  readonly clock: Pick<Clock, 'mono' | 'every'>
  readonly times: PulseTimes
  /** Sends a keep-alive, by a path that calls `sent` like any other message. */
  readonly beat: () => void
  readonly onTimeout: () => void
}

/** Detects a vanished peer by its silence, because a relay answers WebSocket pings only for itself. */
export class PeerTimeout {
  readonly #clock: Pick<Clock, 'mono'>
  #sentMs: number
  #receivedMs: number
  readonly stop: () => void

  constructor ({ beat, clock, onTimeout, times: { checkMs, quietMs, timeoutMs } }: PulseOptions) {
    this.#clock = clock
    this.#sentMs = this.#receivedMs = clock.mono()
    this.stop = clock.every(checkMs, () => {
      const now = clock.mono()
      if (now - this.#receivedMs >= timeoutMs) {
        this.stop()
        onTimeout()
      } else if (now - this.#sentMs >= quietMs) beat()
    })
  }

  sent (): void { this.#sentMs = this.#clock.mono() }

  received (): void { this.#receivedMs = this.#clock.mono() }
}

export interface EndOptions {
  readonly clock: Clock
  readonly random: (bytes: number) => Uint8Array
  /** The requested route; the handshake fails if the two ends name different routes. */
  readonly route: string
  readonly own: Agreement
  /** Keep-alive times; the default is `pulseTimes`. */
  readonly pulse?: PulseTimes
}

export interface Channel {
  readonly mux: Mux
  /** Resolves with the reason when the connection has ended. */
  readonly ended: Promise<Error>
  close (why: Error): void
}

export const socketOptions = { maxPayload: MESSAGE_BYTES, perMessageDeflate: false } as const

/** Dials a relay by its http(s) or ws(s) URL; the WebSocket handshake may take `handshakeTimeout` ms. */
export function dialRelay (url: string, path: string, handshakeTimeout: number): WebSocket {
  const at = socketUrl(url, path)
  return new WebSocket(at, {
    ...socketOptions, agent: outgoingAgent(at, 'named'), handshakeTimeout, followRedirects: false
  })
}

const prologueOf = (route: string): Uint8Array => Buffer.from(`svc relay 1\n${route}`)

/** Opens the device's end; `hello` is the node's first payload. Throws unless the peer has `nodeKey`. */
export async function callNode (
  ws: WebSocket, options: EndOptions & { readonly nodeKey: Uint8Array }
): Promise<Channel & { readonly hello: Uint8Array }> {
  const { nodeKey, own, random, route } = options
  const handshake = new Initiator({
    prologue: prologueOf(route), own, ephemeral: agreementOf(random(KEY_BYTES)), remoteStatic: nodeKey
  })
  const answer = oneMessage(ws, options.clock)
  ws.send(handshake.start())
  const message = await answer
  let finished: { session: Session, payload: Uint8Array }
  try {
    finished = handshake.finish(message)
  } catch {
    ws.terminate()
    throw kernelError('unreachable', 'The other end of the relay is not the paired node.')
  }
  const channel = openChannel(ws, finished.session, options)
  channel.mux.beat()
  return { ...channel, hello: finished.payload }
}

export interface AnswerOptions extends EndOptions {
  /** Returns the id of the device with this key; undefined for an unknown device or an expired grant. */
  readonly admit: (deviceKey: Uint8Array) => string | undefined
  readonly accept: (stream: MuxStream, device: string) => void
  /** Returns the node's first payload for the device, which the handshake carries encrypted. */
  readonly hello?: () => Uint8Array
}

/**
 * Opens the node's end of a connection. The device's first message may be a replay, so this resolves only
 * once the device has used the keys of this handshake. Throws for an unknown device, which gets no reply.
 */
export async function answerDevice (
  ws: WebSocket, options: AnswerOptions
): Promise<Channel & { readonly device: string }> {
  const { accept, admit, own, random, route } = options
  const handshake = new Responder({
    prologue: prologueOf(route), own, ephemeral: agreementOf(random(KEY_BYTES))
  })
  const message = await oneMessage(ws, options.clock)
  let device: string | undefined
  try {
    device = admit(handshake.receive(message).remoteStatic)
  } catch { /* Not made for our key, or no handshake at all. */ }
  if (device === undefined) {
    ws.terminate()
    throw kernelError('unauthenticated', 'No paired device has that key.')
  }
  const answer = handshake.answer(options.hello?.())
  ws.send(answer.message)
  const known = device
  const { proven, ...channel } =
    openChannel(ws, answer.session, options, (stream) => { accept(stream, known) })
  const stop = options.clock.after(HANDSHAKE_MS, () => { ws.terminate() })
  const ended = await Promise.race([proven, channel.ended]).finally(stop)
  if (ended !== undefined) throw ended
  return { ...channel, device }
}

/** Resolves with the next binary message. On a timeout, closes the socket and throws. */
async function oneMessage (ws: WebSocket, clock: Clock): Promise<Uint8Array> {
  const over = new AbortController()
  const stop = clock.after(HANDSHAKE_MS, () => { over.abort() })
  const onClose = (): void => { over.abort() }
  ws.once('close', onClose)
  try {
    const [data, binary] = await once(ws, 'message', { signal: over.signal }) as [Buffer, boolean]
    if (!binary) throw new Error('a text')
    return data
  } catch {
    ws.terminate()
    throw kernelError('unreachable', 'The other end of the relay did not respond to the handshake.')
  } finally {
    stop()
    ws.off('close', onClose)
  }
}

function openChannel (
  ws: WebSocket, session: Session, { clock, pulse: times = pulseTimes }: EndOptions,
  accept?: (stream: MuxStream) => void
): Channel & { readonly proven: Promise<undefined> } {
  const transport = new Transport(session, clock)
  let full = false
  const onSent = (): void => {
    if (!full || ws.bufferedAmount > ROOM_BYTES) return
    full = false
    mux.drained()
  }
  const mux = new Mux({
    clock,
    send: (frame) => {
      pulse.sent()
      for (const message of transport.seal(frame)) ws.send(message, onSent)
      full ||= ws.bufferedAmount > FULL_BYTES
      return !full
    },
    ...accept === undefined ? {} : { accept }
  })
  const close = (why: Error): void => {
    mux.end(why)
    ws.terminate()
  }
  const pulse = new PeerTimeout({
    clock, times, beat: () => { mux.beat() },
    onTimeout: () => {
      const silent = `The other end of the relay was silent for ${times.timeoutMs / 1000} s.`
      close(kernelError('unreachable', silent))
    }
  })
  let prove = (): void => {}
  const proven = new Promise<undefined>((resolve) => { prove = () => { resolve(undefined) } })
  const ended = new Promise<Error>((resolve) => {
    ws.once('close', () => {
      const why = kernelError('unreachable', 'The connection through the relay has ended.')
      pulse.stop()
      mux.end(why)
      resolve(why)
    })
    ws.on('message', (data: Buffer, binary: boolean) => {
      pulse.received()
      try {
        const frame = binary ? transport.open(data) : undefined
        if (frame === undefined) throw new Error('a text')
        prove()
        if (frame !== null) mux.receive(frame)
      } catch {
        // Close the connection, because no message after an altered one can be decrypted.
        const why = kernelError('unreachable', 'The connection through the relay was tampered with.')
        resolve(why)
        close(why)
      }
    })
  })
  return { mux, ended, proven, close }
}
