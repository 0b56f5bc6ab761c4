import { IncomingMessage, type Server, type ServerResponse } from 'node:http'
import websocket from '@fastify/websocket'
import { plainEvent } from './tls/port.js'
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** Maximum size of a message, a little above a call's, so that a larger call gets its typed error. */
const SOCKET_PAYLOAD_BYTES = 1088 * 1024

/** Prefixes of subprotocols that carry the token, since web pages cannot set an Authorization header. */
const BEARER = /^(?:svc\.bearer|openai-insecure-api-key)\./

/** The token among the offered subprotocols, in the form of an Authorization header. */
export function offeredToken (protocols: string | undefined): string | undefined {
  const offer = protocols?.split(',').map((one) => one.trim()).find((one) => BEARER.test(one))
  return offer?.replace(BEARER, 'Bearer ')
}

/**
 * Creates a scope for the WebSocket routes that `declare` adds. The WebSocket plugin's hooks run only there:
 * they would make plain requests take a quarter longer.
 */
export function socketScope (app: FastifyInstance, declare: (scope: FastifyInstance) => void): void {
  void app.register(async (scope) => {
    await scope.register(websocket, { options: {
      maxPayload: SOCKET_PAYLOAD_BYTES, perMessageDeflate: false, clientTracking: true,
      // Browsers close a connection whose offer is not answered. Without this, ws might select the token.
      handleProtocols: (offered: ReadonlySet<string>) =>
        [...offered].find((one) => !BEARER.test(one)) ?? false,
      // Missing in ws's types. Limits fragments, since many tiny ones cost memory out of proportion.
      ...{ maxFragments: 64, maxBufferedChunks: 1024 }
    } })
    declare(scope)
  })
}

/**
 * Ignores an Upgrade header for protocols other than WebSocket, such as h2c (RFC 9110 7.8); Node would remove
 * the request from its parser and drop the body.
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
 * Closes the socket after the answer to a refused or misdirected upgrade: Node has detached its HTTP
 * parser from the socket, so further requests would be lost.
 */
export function closeUnupgraded (request: FastifyRequest, reply: FastifyReply): void {
  const { upgrade } = request.raw as { upgrade?: boolean | null }
  if (upgrade === true) reply.raw.once('finish', () => { request.raw.socket.destroy() })
}

/** Milliseconds that an anonymous reader may stall before its connection is closed. */
const STRANGER_STALL_MS = 5_000

/** Sets how long an answer may stay unread before its connection is closed: shorter for anonymous clients. */
export function limitStall (socket: Socket, stallMs: number, stranger: boolean): void {
  const ms = stranger ? Math.min(stallMs, STRANGER_STALL_MS) : stallMs
  // Injected requests have no real socket.
  if (socket.timeout !== undefined && socket.timeout !== ms) socket.setTimeout(ms)
}

const halfClosed = new WeakSet<ServerResponse>()

export const clientHalfClosed = (response: ServerResponse): boolean => halfClosed.has(response)

/** Event of the response: the client has ended its side before the answer began. */
export const HALF_CLOSED = 'clientHalfClosed'

/**
 * After its request, a client may end its side and still read, or be gone. The response emits `HALF_CLOSED`,
 * which aborts the work; an answer or error is still sent. An open stream is cut: half-closing is how clients
 * stop following.
 */
export function answerHalfClosed (
  server: Server
): (request: IncomingMessage, response: ServerResponse) => void {
  const pending = new WeakMap<Socket, ServerResponse>()
  // Undocumented option; without it, Node ends its own side immediately, before the answer.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on(plainEvent(server), (socket: Socket) => {
    // Set after a TLS handshake; a client that left during it would otherwise stay until the timeout.
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
