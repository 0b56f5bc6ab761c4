import { IncomingMessage } from 'node:http'
import websocket from '@fastify/websocket'
import { plainEvent } from './tls/port.js'
import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** A little over a call's limit, so that a call too large gets its typed error instead of a closed socket. */
const SOCKET_PAYLOAD_BYTES = 1088 * 1024

/** Our answer to offered subprotocols: browsers end a connection without one. */
const PROTOCOL = 'svc'
/** Before the token among the subprotocols that a client offers: a web page cannot send it in another way. */
const BEARER = 'svc.bearer.'

/** The token in an offer of subprotocols, as Authorization would have it. */
export function offeredToken (protocols: string | undefined): string | undefined {
  const offer = protocols?.split(',').find((one) => one.trim().startsWith(BEARER))
  return offer === undefined ? undefined : `Bearer ${offer.trim().slice(BEARER.length)}`
}

/**
 * A scope for WebSocket routes, which `declare` adds: the WebSocket plugin's hooks run for these only, since
 * they would cost plain requests a quarter of their time.
 */
export function socketScope (app: FastifyInstance, declare: (scope: FastifyInstance) => void): void {
  void app.register(async (scope) => {
    await scope.register(websocket, { options: {
      maxPayload: SOCKET_PAYLOAD_BYTES, perMessageDeflate: false, clientTracking: true,
      // Without this ws sends back what was offered first, be it the token.
      handleProtocols: (offered: ReadonlySet<string>) => offered.has(PROTOCOL) && PROTOCOL,
      // Known to ws, not yet to its types: many tiny fragments cost memory out of proportion.
      ...{ maxFragments: 64, maxBufferedChunks: 1024 }
    } })
    declare(scope)
  })
}

/**
 * Node takes a request with any Upgrade header off its parser and drops the body. Ignores offers of other
 * protocols than WebSocket, such as h2c (RFC 9110 7.8).
 */
export class ArrivingMessage extends IncomingMessage {
  declare upgradeOffered: boolean | null | undefined

  get upgrade (): boolean {
    return this.upgradeOffered === true &&
      (this.method === 'CONNECT' || this.headers.upgrade?.toLowerCase() === 'websocket')
  }

  set upgrade (offered: boolean | null) { this.upgradeOffered = offered }
}

/**
 * Closes the socket after the answer to a refused or misdirected upgrade: Node has taken it off its HTTP
 * parser, so further requests would be lost.
 */
export function closeUnupgraded (request: FastifyRequest, reply: FastifyReply): void {
  const { upgrade } = request.raw as { upgrade?: boolean | null }
  if (upgrade === true) reply.raw.once('finish', () => { request.raw.socket.destroy() })
}

/** Longest pause of an anonymous reader before its connection is closed, ms. */
const STRANGER_STALL_MS = 5_000

/** Sets how long an answer may wait to be read before its connection is closed: shorter for strangers. */
export function limitStall (socket: Socket, stallMs: number, stranger: boolean): void {
  const ms = stranger ? Math.min(stallMs, STRANGER_STALL_MS) : stallMs
  // Requests that are injected come without one.
  if (socket.timeout !== undefined && socket.timeout !== ms) socket.setTimeout(ms)
}

const halfClosed = new WeakSet<ServerResponse>()

/** Whether the client ended its side of the connection before its answer began. */
export const clientHalfClosed = (response: ServerResponse): boolean => halfClosed.has(response)

/** The event of a response when that happens. */
export const HALF_CLOSED = 'clientHalfClosed'

/**
 * A client may end its side after the request and still read, or be gone. The response emits `HALF_CLOSED`,
 * which aborts what it started; an answer or error is still sent. An open stream is cut: half-closing is how
 * clients stop following.
 */
export function answerHalfClosed (
  server: Server
): (request: IncomingMessage, response: ServerResponse) => void {
  const pending = new WeakMap<Socket, ServerResponse>()
  // Not in Node's types. Without it Node ends its side at once, before the answer.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on(plainEvent(server), (socket: Socket) => {
    // Not sooner: whoever leaves within a TLS handshake would stay until the time for it is over.
    socket.allowHalfOpen = true
    socket.once('end', () => {
      const response = pending.get(socket)
      if (response === undefined || response.writableEnded) return
      if (response.headersSent) socket.destroy()
      else {
        halfClosed.add(response)
        response.emit(HALF_CLOSED)
      }
    })
  })
  return (request, response) => { pending.set(request.socket, response) }
}
