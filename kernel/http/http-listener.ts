import { systemClock } from '../api/clock.js'
import { createServer } from 'node:http'
import { createServer as createSecure } from 'node:https'
import { createServer as createTcpServer } from 'node:net'
import type { IncomingMessage, Server, ServerOptions as NodeServerOptions, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { AddressInfo, ListenOptions, Server as TcpServer, Socket } from 'node:net'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { kernelError } from '../api/errors.js'
import { answerBrokenRequest, refuse } from './malformed-request.js'
import { relayedDevice } from './callers.js'
import { ConnectionLimiter } from './connection-limiter.js'
import { isLoopback, isOwnServer } from '../net/addresses.js'
import { hostAllowed } from './origin.js'
import { answerHalfClosed, ArrivingMessage } from './sockets.js'
import { answerInClear, isTls, tlsOf } from './tls/port.js'
import type { ServedNames } from './origin.js'
import type { HttpLimits } from './limits.js'
import type { ServerIdentity } from './tls/identity.js'

const CONNECTION_CHECK_MS = 5000
/** Milliseconds for answers in transit to finish when the server closes. */
const LAST_BYTES_MS = 250
const MAX_REQUESTS_PER_SOCKET = 1000

/** Where to listen: an address, or a socket that another process has bound. */
export type Where = ListenOptions | { fd: number }

/** With an identity, the listener speaks TLS, and redirects browsers from http to https for served hosts. */
export interface ListenerTls { identity?: ServerIdentity | undefined, served?: () => ServedNames }

/**
 * The single HTTP server of a node. Fastify accepts no routes once it is ready, so a new route table replaces
 * the whole old one, which only finishes the requests that it has begun.
 */
export class HttpListener {
  readonly server: Server
  readonly limiter: ConnectionLimiter
  /** Must be called for every request, so that clients that half-close their connection get an answer. */
  readonly begins: ReturnType<typeof answerHalfClosed>
  readonly #first: Promise<void>
  #opened: () => void = () => {}
  #table: FastifyInstance | undefined
  #also: TcpServer | undefined
  readonly #answered = new WeakMap<Socket, number>()

  constructor (limits: HttpLimits, tls: ListenerTls = {}) {
    this.server = isOwnServer(makeServer(limits, tls))
    this.limiter = openLimiter(this.server, limits)
    this.begins = answerHalfClosed(this.server)
    this.#first = new Promise((resolve) => { this.#opened = resolve })
    this.server.on('request', this.#answer)
    this.server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
      refuse(response, kernelError('expectation_failed'))
    })
    this.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      // Fastify's server never listens; emitting `upgrade` on it reaches the table's WebSocket routes.
      this.#table?.server.emit('upgrade', request, socket, head)
    })
  }

  /** Answers a request from any source with the current route table. */
  readonly routing = (request: IncomingMessage, response: ServerResponse): void => {
    this.#table?.routing(request, response)
  }

  /** Like `routing`, but limits the number of requests on a connection of this server. */
  readonly #answer = (request: IncomingMessage, response: ServerResponse): void => {
    const count = (this.#answered.get(request.socket) ?? 0) + 1
    this.#answered.set(request.socket, count)
    // Undocumented field: Node then sends `Connection: close` but still answers pipelined requests.
    if (count >= MAX_REQUESTS_PER_SOCKET) Object.assign(response, { maxRequestsOnConnectionReached: true })
    if (count > MAX_REQUESTS_PER_SOCKET) refuse(response, kernelError('connection_spent'))
    else this.routing(request, response)
  }

  /** Sends new requests to this table, which must be ready. */
  swap (table: FastifyInstance): void {
    this.#table = table
    this.#opened()
  }

  /** Runs a request without a socket; waits until there is a route table. */
  async inject (request: InjectOptions | string): Promise<LightMyRequestResponse> {
    await this.#first
    return await this.#table!.inject(request)
  }

  async listen (where: Where): Promise<string> {
    const { server } = this
    await listening(server, where)
    const { address, port } = server.address() as AddressInfo
    const scheme = isTls(server) ? 'https' : 'http'
    return `${scheme}://${address.includes(':') ? `[${address}]` : address}:${port}`
  }

  /** Also listens at a second address. Rejects with the system's error code. */
  async listenAlso (where: Where): Promise<void> {
    const give = (socket: Socket): void => { this.server.emit('connection', socket) }
    const also = isOwnServer(createTcpServer({ noDelay: true }, give))
    await listening(also, where)
    this.#also = also
  }

  /** Stops listening, lets pending answers finish and closes every connection. Safe before listening. */
  async close (): Promise<void> {
    // Stops accepting first, so that queued connections go to the next process.
    this.#also?.close()
    const closed = new Promise<void>((resolve) => { this.server.close(() => { resolve() }) })
    await this.#table?.close()
    const cancel = systemClock.after(LAST_BYTES_MS, () => {
      this.server.closeAllConnections()
      // `closeAllConnections` misses connections that are still in their TLS handshake.
      this.limiter.closeUnauthenticated()
    })
    await closed
    cancel()
  }
}

async function listening (server: TcpServer, where: Where): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(where, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function makeServer (limits: HttpLimits, { identity, served }: ListenerTls): Server {
  const options: NodeServerOptions = {
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: CONNECTION_CHECK_MS,
    // Off, so that a request without Host gets svc's own error body.
    requireHostHeader: false,
    IncomingMessage: ArrivingMessage
  }
  const server = identity === undefined
    ? createServer(options)
    : createSecure({ ...options, ...tlsOf(identity) })
  if (isTls(server)) {
    answerInClear(server, (host) => served !== undefined && hostAllowed(host, served()))
  }
  server.setTimeout(limits.streamStallMs)
  server.on('clientError', answerBrokenRequest)
  return server
}

/**
 * Without credentials, one remote network may hold twice `connectionsPerAddress` connections, so that those
 * over the limit are refused with the reason, but never more than half of all connections.
 */
function openLimiter (server: Server, { connections, connectionsPerAddress }: HttpLimits): ConnectionLimiter {
  const perNetwork = Math.min(Math.ceil(connections / 2), 2 * connectionsPerAddress)
  const limiter = new ConnectionLimiter({ inAll: connections, perNetwork, free: isLoopback })
  server.on('connection', (socket) => {
    if (relayedDevice(socket) === undefined) limiter.accept(socket)
  })
  return limiter
}
