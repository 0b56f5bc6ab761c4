import { Counter, Gauge, Registry } from 'prom-client'
import {
  createServer as createPlain, type IncomingMessage, type RequestListener, type Server
} from 'node:http'
import { createServer as createTls } from 'node:https'
import { once } from 'node:events'
import { WebSocketServer, type WebSocket } from 'ws'
import { isLoopback, showIdentity, tlsOf, type Clock, type ServerIdentity } from '../../../kernel/index.js'
import { socketOptions } from '../channel/secure.js'
import { paths } from '../wire.js'
import { Visitors, type RelayLimits } from './limits.js'
import { RelayRouter } from './router.js'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'

export interface RelayOptions {
  readonly host: string
  /** Port to listen on; 0 for any free one. */
  readonly port: number
  /** Without `tls`, the relay serves plain HTTP, for a TLS proxy in front of it. */
  readonly tls?: ServerIdentity
  /** If true, clients are identified by the last address in X-Forwarded-For, which a proxy must set. */
  readonly proxied?: boolean
  readonly limits: RelayLimits
  readonly clock: Clock
  readonly random: (bytes: number) => Uint8Array
}

/** Maximum bytes of a request head, and time limit in ms for receiving it. */
const HEAD_BYTES = 8 * 1024
const HEAD_MS = 10_000

/** Starts a relay, which connects devices with nodes that dial it. Rejects if it cannot listen. */
export async function startRelay (options: RelayOptions) {
  const { clock, limits, random, tls } = options
  const router = new RelayRouter({ clock, limits, random })
  const visitors = new Visitors(limits, clock)
  const metrics = relayMetrics(router, () => visitors.open)
  const answer: RequestListener = (request, response) => {
    const local = isLoopback(addressOf(request, options))
    if (request.method === 'GET' && request.url === '/healthz') response.end('{"ok":true}')
    else if (request.method === 'GET' && request.url === '/metrics' && local) {
      void metrics().then((text) => { response.end(text) })
    } else response.writeHead(404).end()
  }
  const http = {
    maxHeaderSize: HEAD_BYTES, headersTimeout: HEAD_MS, requestTimeout: HEAD_MS, keepAliveTimeout: HEAD_MS
  }
  const server: Server = tls === undefined
    ? createPlain(http, answer)
    : createTls({ ...http, ...tlsOf(tls) }, answer)
  server.maxConnections = limits.connections
  const sockets = new WebSocketServer({
    noServer: true, ...socketOptions,
    // Options of ws that its types lack; without them many tiny fragments use disproportionate memory.
    ...{ maxFragments: 16, maxBufferedChunks: 256 }
  })
  server.on('upgrade', (request, socket, head) => {
    upgrade({ request, socket, head }, { options, router, sockets, visitors })
  })
  const stopPings = keepAlive(sockets, options)
  server.listen({ host: options.host, port: options.port })
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    router,
    show (identity: ServerIdentity) { showIdentity(server, identity) },
    async close () {
      stopPings()
      for (const ws of sockets.clients) ws.terminate()
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    }
  }
}

interface UpgradeRequest { readonly request: IncomingMessage, readonly socket: Duplex, readonly head: Buffer }

interface RelayParts {
  readonly options: RelayOptions, readonly router: RelayRouter, readonly sockets: WebSocketServer
  readonly visitors: Visitors
}

function upgrade (
  { request, socket, head }: UpgradeRequest, { options, router, sockets, visitors }: RelayParts
): void {
  socket.on('error', () => {})
  const kind = Object.values(paths).find((path) => path === request.url)
  const address = addressOf(request, options)
  const leave = kind === undefined ? undefined : visitors.enter(address, isLoopback(address))
  if (leave === undefined) {
    const status = kind === undefined ? '404 Not Found' : '429 Too Many Requests'
    socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`,
      () => { socket.destroy() })
    return
  }
  socket.once('close', leave)
  sockets.handleUpgrade(request, socket, head, (ws) => {
    ws.on('error', () => {})
    if (kind === paths.node) router.node(ws, request.headers.host ?? '')
    else if (kind === paths.device) router.device(ws)
    else router.accept(ws)
  })
}

/** Closes connections that missed a ping, except paused ones, which cannot answer. */
function keepAlive (sockets: WebSocketServer, { clock, limits }: RelayOptions): () => void {
  const asked = new WeakSet<WebSocket>()
  return clock.every(limits.pingMs, () => {
    for (const ws of sockets.clients) {
      if (!asked.has(ws)) {
        asked.add(ws)
        ws.once('pong', () => { asked.delete(ws) })
        ws.ping()
      } else if (!ws.isPaused) ws.terminate()
    }
  })
}

/** The client's address, from the proxy if there is one. */
function addressOf (request: IncomingMessage, { proxied }: RelayOptions): string {
  const own = request.socket.remoteAddress ?? ''
  if (proxied !== true) return own
  return String(request.headers['x-forwarded-for'] ?? own).split(',').at(-1)!.trim()
}

/** Metrics in the Prometheus text format; they contain no routes and no addresses. */
function relayMetrics (router: RelayRouter, connections: () => number): () => Promise<string> {
  const registers = [new Registry()]
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({ name: `svc_relay_${name}`, help, registers, collect () { this.set(read()) } })
  }
  gauge('connections', 'Open connections of every kind.', connections)
  gauge('nodes', 'Nodes that have claimed their route.', () => router.counts.nodes)
  gauge('devices', 'Devices that are connected with a node.', () => router.counts.devices)
  gauge('waiting', 'Devices that wait for their node.', () => router.counts.waiting)
  gauge('queued_bytes', 'Queued bytes.', () => router.traffic.queued)
  const counter = (name: string, help: string, read: () => number): void => {
    new Counter({
      name: `svc_relay_${name}_total`, help, registers,
      collect () {
        this.reset()
        this.inc(read())
      }
    })
  }
  counter('messages', 'Forwarded messages, both directions.', () => router.traffic.messages)
  counter('bytes', 'Forwarded bytes, both directions.', () => router.traffic.bytes)
  new Counter({
    name: 'svc_relay_refused_total', help: 'Connections that the relay closed, by reason.',
    labelNames: ['why'], registers,
    collect () {
      this.reset()
      for (const [why, count] of Object.entries(router.refused)) this.inc({ why }, count)
    }
  })
  return async () => await registers[0]!.metrics()
}
