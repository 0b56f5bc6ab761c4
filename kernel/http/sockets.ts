import { IncomingMessage } from 'node:http'
import websocket from '@fastify/websocket'
import { plainEvent } from './tls/port.js'
import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/**
 * A little above the limit of a call, so that a larger call gets its typed error instead of a closed socket.
 */
const SOCKET_PAYLOAD_BYTES = 1088 * 1024

/** Our answer to offered subprotocols: browsers end a connection without one. */
const PROTOCOL = 'svc'
/** Precedes the token among the offered subprotocols: a web page has no other way to send it. */
const BEARER = 'svc.bearer.'

/** The token in an offer of subprotocols, in the form of Authorization. */
export function offeredToken (protocols: string | undefined): string | undefined {
  const offer = protocols?.split(',').find((one) => one.trim().startsWith(BEARER))
  return offer === undefined ? undefined : `Bearer ${offer.trim().slice(BEARER.length)}`
}

/**
 * A scope for WebSocket routes, which `declare` adds: the WebSocket plugin's hooks run only for these, since
 * they would add a quarter to the time of plain requests.
 */
export function socketScope (app: FastifyInstance, declare: (scope: FastifyInstance) => void): void {
  void app.register(async (scope) => {
    await scope.register(websocket, { options: {
      maxPayload: SOCKET_PAYLOAD_BYTES, perMessageDeflate: false, clientTracking: true,
      // Without this, ws returns the first offer, even if that is the token.
      handleProtocols: (offered: ReadonlySet<string>) => offered.has(PROTOCOL) && PROTOCOL,
      // Missing in ws's types: many tiny fragments cost memory out of proportion.
      ...{ maxFragments: 64, maxBufferedChunks: 1024 }
    } })
    declare(scope)
  })
}

/**
 * Node removes a request with any Upgrade header from its parser and drops the body. Ignores offers of
 * protocols other than WebSocket, such as h2c (RFC 9110 7.8).
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
 * Closes the socket after the answer to a refused or misdirected upgrade: Node has removed it from its HTTP
 * parser, so further requests would be lost.
 */
export function closeUnupgraded (request: FastifyRequest, reply: FastifyReply): void {
  const { upgrade } = request.raw as { upgrade?: boolean | null }
  if (upgrade === true) reply.raw.once('finish', () => { request.raw.socket.destroy() })
}

/** Longest pause of an anonymous reader before its connection is closed, ms. */
const STRANGER_STALL_MS = 5_000

/** Sets how long an answer may stay unread before its connection is closed: shorter for anonymous clients. */
export function limitStall (socket: Socket, stallMs: number, stranger: boolean): void {
  const ms = stranger ? Math.min(stallMs, STRANGER_STALL_MS) : stallMs
  // Injected requests have none.
  if (socket.timeout !== undefined && socket.timeout !== ms) socket.setTimeout(ms)
}

const halfClosed = new WeakSet<ServerResponse>()

export const clientHalfClosed = (response: ServerResponse): boolean => halfClosed.has(response)

/** Emitted by the response when the client ends its side before the answer begins. */
export const HALF_CLOSED = 'clientHalfClosed'

/**
 * A client may end its side after the request and still read, or be gone. The response emits `HALF_CLOSED`,
 * which aborts the work; an answer or error is still sent. An open stream is cut: half-closing is how clients
 * stop following.
 */
export function answerHalfClosed (
  server: Server
): (request: IncomingMessage, response: ServerResponse) => void {
  const pending = new WeakMap<Socket, ServerResponse>()
  // Not in Node's types. Without it Node ends its own side at once, before the answer.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on(plainEvent(server), (socket: Socket) => {
    // Not sooner: a client that leaves during a TLS handshake would stay until the handshake timeout.
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
