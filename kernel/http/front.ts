import { systemClock } from '../api/clock.js'
import { createServer } from 'node:http'
import { createServer as createSecure } from 'node:https'
import type { IncomingMessage, Server, ServerOptions as NodeServerOptions, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { AddressInfo, ListenOptions } from 'node:net'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { isLoopback } from './access.js'
import { answerBrokenRequest } from './broken.js'
import { relayedDevice } from './callers.js'
import { Door } from './door.js'
import { isOwnServer } from '../net/addresses.js'
import { answerHalfClosed } from './ending.js'
import { answerInClear, isTls, tlsOf } from './tls/port.js'
import type { HttpLimits } from './server.js'
import type { ServerIdentity } from './tls/identity.js'

const CONNECTION_CHECK_MS = 5000
/** How long answers that are being sent may take once the server closes, ms. */
const LAST_BYTES_MS = 250
const MAX_REQUESTS_PER_SOCKET = 1000

/**
 * The one HTTP server of a node. Fastify takes no routes once it is ready, so the routes are a table that can
 * be replaced whole: requests and upgrades go to the current one, and what an earlier one has begun it ends.
 */
export class Front {
  readonly server: Server
  /** Counts connections, and closes the silent ones when there are too many. */
  readonly door: Door
  /** Told of every request, so that a client that ends its side is answered all the same. */
  readonly begins: ReturnType<typeof answerHalfClosed>
  readonly #first: Promise<void>
  #opened: () => void = () => {}
  #table: FastifyInstance | undefined

  /** With an identity it speaks TLS. */
  constructor (limits: HttpLimits, identity?: ServerIdentity) {
    this.server = isOwnServer(makeServer(limits, identity))
    this.door = openDoor(this.server, limits)
    this.begins = answerHalfClosed(this.server)
    this.#first = new Promise((resolve) => { this.#opened = resolve })
    this.server.on('request', this.routing)
    this.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      // The table's own server never listens: it only carries the event to its WebSocket routes.
      this.#table?.server.emit('upgrade', request, socket, head)
    })
  }

  /** Answers a request from wherever it came, by the current table. */
  readonly routing = (request: IncomingMessage, response: ServerResponse): void => {
    this.#table?.routing(request, response)
  }

  /** New requests go to this table from now on; it has to be ready. */
  swap (table: FastifyInstance): void {
    this.#table = table
    this.#opened()
  }

  /** Makes a request without a socket; one that is made before there are routes waits for them. */
  async inject (request: InjectOptions | string): Promise<LightMyRequestResponse> {
    await this.#first
    return await this.#table!.inject(request)
  }

  /** Listens; resolves to the URL of the address. Throws with the system's code, such as EADDRINUSE. */
  async listen (where: ListenOptions): Promise<string> {
    const { server } = this
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(where, () => {
        server.off('error', reject)
        resolve()
      })
    })
    const { address, port } = server.address() as AddressInfo
    const scheme = isTls(server) ? 'https' : 'http'
    return `${scheme}://${address.includes(':') ? `[${address}]` : address}:${port}`
  }

  /** Stops listening, lets answers go out and closes every connection. Safe when it never listened. */
  async close (): Promise<void> {
    // First of all nobody comes any more: who waits at the port is answered by the next start.
    const closed = new Promise<void>((resolve) => { this.server.close(() => { resolve() }) })
    await this.#table?.close()
    const cancel = systemClock.after(LAST_BYTES_MS, () => {
      this.server.closeAllConnections()
      // To the server, a connection within its TLS handshake is none yet.
      this.door.empty()
    })
    await closed
    cancel()
  }
}

function makeServer (limits: HttpLimits, identity: ServerIdentity | undefined): Server {
  const options: NodeServerOptions = {
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: CONNECTION_CHECK_MS
  }
  const server = identity === undefined
    ? createServer(options)
    : createSecure({ ...options, ...tlsOf(identity) })
  if (isTls(server)) answerInClear(server)
  server.setTimeout(limits.streamStallMs)
  server.maxRequestsPerSocket = MAX_REQUESTS_PER_SOCKET
  server.on('clientError', answerBrokenRequest)
  return server
}

/**
 * One foreign network that shows no credential gets twice the connections that are answered, so that the next
 * ones hear why they are refused, and at most half of the places.
 */
function openDoor (server: Server, { connections, connectionsPerAddress }: HttpLimits): Door {
  const perNetwork = Math.min(Math.ceil(connections / 2), 2 * connectionsPerAddress)
  const door = new Door({ inAll: connections, perNetwork, free: isLoopback })
  server.on('connection', (socket) => {
    if (relayedDevice(socket) === undefined) door.enter(socket)
  })
  return door
}
