import { EventEmitter, once } from 'node:events'
import { createServer, type Server } from 'node:https'
import websocket from '@fastify/websocket'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import {
  ConnectionLimiter, isOwnServer, memberOf, setMember, type Clock, type NodeKey
} from '../../../kernel/cluster.js'
import { peerFingerprint, serverTls } from '../identity/tls.js'
import { CLUSTER_PATH, REMOVED_STATUS } from './dialler.js'
import { addJoinRoute, JOIN_PATH, type JoinRouteOptions } from '../identity/join.js'
import { socketOptions } from './link.js'
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { WebSocket } from 'ws'
import type { Member } from '../members/member.js'

export interface ListenerOptions extends JoinRouteOptions {
  key: NodeKey
  clock: Clock
  /** The API's request handler for members' requests; the url /api/<path> is rewritten to /<path>. */
  api: (request: IncomingMessage, response: ServerResponse) => void
  accept: (ws: WebSocket, socket: TLSSocket, member: Member) => void
}

const linkSockets = new WeakSet<object>()

const REMOVED_RESPONSE = `HTTP/1.1 ${REMOVED_STATUS} Gone\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`
const API_PREFIX = '/api/'
const HEADERS_MS = 5000
/** Milliseconds, well above the clients' idle timeout, so that no request meets a closing connection. */
export const KEEP_ALIVE_MS = 15_000
const CHECK_MS = 1000

/** Creates the members' listener, which uses TLS 1.3 and checks the peer's key before it reads any data. */
export async function createListener (options: ListenerOptions) {
  const { limits } = options
  const upgrades = new EventEmitter()
  let server: Server | undefined
  const app = fastify({
    logger: false, exposeHeadRoutes: false, forceCloseConnections: true,
    serverFactory: (handler) => {
      server = createServer({
        ...serverTls(options.key), headersTimeout: HEADERS_MS, requestTimeout: 30_000,
        keepAliveTimeout: KEEP_ALIVE_MS, connectionsCheckingInterval: CHECK_MS
      }, handler)
      return server
    }
  })
  // The WebSocket plugin gets only the upgrades for links; upgrades for the API are routed separately.
  await app.register(websocket, { options: { ...socketOptions(limits), server: upgrades as HttpServer } })
  const https = server!
  const { sockets, proven } = guard(isOwnServer(https), options)
  addRoutes(app, { ...options, tokenShown: proven })
  await app.ready()
  https.on('upgrade', (request, socket: TLSSocket, head) => {
    if (options.members.isRemoved(peerFingerprint(socket) ?? '')) socket.end(REMOVED_RESPONSE)
    else if (memberOf(socket) === undefined || request.url?.startsWith(API_PREFIX) === true) socket.destroy()
    else upgrades.emit('upgrade', request, socket, head)
  })
  https.on('tlsClientError', (_error, socket) => { socket.destroy() })
  https.on('clientError', (_error, socket) => { socket.destroy() })
  return {
    /** A second call moves the listener, or rejects and leaves the old address in use. */
    listen: (at: Address) => listenOn(https, at),
    /** Closes all request connections from a member, but not its links. */
    dropRequests (installId: string) {
      for (const socket of sockets.keys()) {
        if (memberOf(socket) === installId && !linkSockets.has(socket)) socket.destroy()
      }
    },
    /** Closes request connections whose key is no longer the member's. `keys`: fingerprints by install id. */
    keep (keys: ReadonlyMap<string, string>) {
      for (const [socket, fingerprint] of sockets) {
        const installId = memberOf(socket)
        if (installId === undefined || keys.get(installId) === fingerprint) continue
        setMember(socket, undefined)
        // Links stay open here, because they first send a close frame with the reason.
        if (!linkSockets.has(socket)) socket.destroy()
      }
    },
    async close () {
      const closed = new Promise<void>((resolve) => { https.close(() => { resolve() }) })
      for (const socket of sockets.keys()) socket.destroy()
      https.closeAllConnections()
      await app.close()
      await closed
    }
  }
}

interface Address { host: string, port: number }

/** Listens at that address only; open connections stay. */
async function listenOn (server: Server, at: Address): Promise<Address> {
  const before = server.address() as AddressInfo | null
  if (before === null) return await bind(server, at)
  server.close()
  return await bind(server, at).catch(async (error: unknown) => {
    await bind(server, { host: before.address, port: before.port })
    throw error
  })
}

async function bind (server: Server, at: Address): Promise<Address> {
  server.listen(at)
  await once(server, 'listening')
  const { address, port } = server.address() as AddressInfo
  return { host: address, port }
}

/** Checks keys when a connection becomes secure, before Node's HTTP parser reads from it. */
function guard (
  server: Server, options: ListenerOptions
): { sockets: Map<TLSSocket, string | undefined>, proven: (socket: TLSSocket) => void } {
  const { key, members, joinTokens, clock, limits, log } = options
  const sockets = new Map<TLSSocket, string | undefined>()
  // Limit connections of members too, because members and non-members may share an address.
  const limiter = new ConnectionLimiter({ inAll: limits.connections, perNetwork: limits.requestSockets })
  // Allow one connection per open token, even if all joining nodes share an address.
  const joining = new ConnectionLimiter({
    get inAll () { return Math.max(limits.strangers, joinTokens.pending) },
    get perNetwork () { return Math.max(Math.ceil(limits.strangers / 4), joinTokens.pending) }
  })
  server.on('connection', (socket) => { limiter.accept(socket as Socket) })
  const letJoin = (socket: TLSSocket, fingerprint: string | undefined): boolean => {
    if (fingerprint === undefined || fingerprint === key.fingerprint) return false
    // A removed node gets an answer, so that it learns why its links are closed.
    if (!members.isRemoved(fingerprint) && !joinTokens.mayJoin(fingerprint)) return false
    joining.accept(socket)
    socket.once('close', clock.after(limits.strangerMs, () => { socket.destroy() }))
    return true
  }
  server.prependListener('secureConnection', (socket) => {
    socket.on('error', () => {})
    const fingerprint = peerFingerprint(socket)
    sockets.set(socket, fingerprint)
    socket.once('close', () => { sockets.delete(socket) })
    const member = fingerprint === undefined ? undefined : members.byFingerprint(fingerprint)
    if (member !== undefined && fingerprint !== key.fingerprint) {
      setMember(socket, member.installId)
      limiter.authenticated(socket)
    } else if (!letJoin(socket, fingerprint)) {
      log.debug({ address: socket.remoteAddress, fingerprint }, 'an unknown key was refused')
      socket.destroy()
    }
  })
  return {
    sockets,
    proven: (socket) => { for (const limit of [limiter, joining]) limit.authenticated(socket) }
  }
}

function addRoutes (app: FastifyInstance, options: ListenerOptions): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { socket } = request.raw
    const joins = request.method === 'POST' && request.raw.url === JOIN_PATH
    if (socket.destroyed || (memberOf(socket) === undefined && !joins)) {
      reply.hijack()
      socket.destroy()
      return
    }
    done()
  })
  addJoinRoute(app, options)
  const api = {
    onRequest: (request: FastifyRequest, reply: FastifyReply) => {
      reply.hijack()
      request.raw.url = request.raw.url!.slice(API_PREFIX.length - 1)
      options.api(request.raw, reply.raw)
    },
    handler: () => {}
  }
  void app.register(async (scope) => {
    scope.all(`${API_PREFIX}*`, api)
    scope.get(CLUSTER_PATH, { websocket: true }, (ws, request) => {
      const socket = request.raw.socket as TLSSocket
      const member = options.members.find(memberOf(socket) ?? '')
      if (member === undefined) ws.terminate()
      else {
        linkSockets.add(socket)
        options.accept(ws, socket, member)
      }
    })
  })
}
