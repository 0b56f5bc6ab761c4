import { BoundedSocket } from '../capabilities/service.js'
import { newId } from './ids.js'
import type { Clock, RouteSocket } from '../../kernel/index.js'

const LIMITS = { bufferBytes: 256 * 1024, stallMs: 30_000, pingMs: 20_000, deadMs: 60_000, graceMs: 1000 }
/** Bytes of events that may wait for the client before the socket is closed. */
const MOST_BYTES = 8 * 1024 * 1024
/** Milliseconds without a message after which a session ends. */
const IDLE_MS = 30 * 60_000

/** Close codes: RFC 6455 has the first two; the others are those of capability sessions. */
export const closeCodes = { stopping: 1001, busy: 1013, slow: 4408, idle: 4410 } as const

/** A WebSocket that sends events as JSON, in order, with bounds on what it holds and on silence. */
export class EventSocket {
  readonly #socket: BoundedSocket
  #waiting = 0
  #sent = Promise.resolve()

  constructor (ws: RouteSocket, clock: Clock, receive: (data: string) => void) {
    this.#socket = new BoundedSocket(ws, clock, LIMITS)
    const watch = (): (() => void) =>
      clock.after(IDLE_MS, () => { this.close(closeCodes.idle, 'no event for 30 minutes') })
    let stop = watch()
    ws.on('error', () => { /* 'close' follows */ })
    ws.on('close', () => { stop() })
    ws.on('message', (data, isBinary) => {
      stop()
      stop = watch()
      this.#socket.alive()
      if (!this.#socket.closed) receive(isBinary ? '' : (data as Buffer).toString())
    })
  }

  /** Resolves when all events are on their way; never rejects. */
  get sent (): Promise<void> { return this.#sent }

  send (type: string, fields: object): void {
    const bytes = Buffer.from(JSON.stringify({ type, event_id: newId('event'), ...fields }))
    this.#waiting += bytes.byteLength
    if (this.#waiting > MOST_BYTES) this.close(closeCodes.slow, 'the client does not read')
    this.#sent = this.#sent.then(async () => { await this.#socket.send(bytes, false) })
      .catch(() => { /* the socket is closed */ }).finally(() => { this.#waiting -= bytes.byteLength })
  }

  close (code: number, reason: string): void { this.#socket.close(code, reason) }
}
