import { randomUUID, timingSafeEqual, createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { errorBody, foreignPage, hostAllowed, kernelError, toSvcError } from '../../../kernel/index.js'
import { carrier, type RelayConnection } from './connection.js'
import type { ClientRequest, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { SvcError } from '../../../kernel/index.js'

const CONNECTIONS = 256
/** Hop-by-hop headers (RFC 9110 7.6.1), and those that a local client must not send to the node. */
const NOT_PASSED = new Set([
  'host', 'connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade',
  'authorization', 'x-api-key', 'cookie', 'origin', 'forwarded', 'x-forwarded-for', 'x-real-ip'
])
const BEARER = 'svc.bearer.'

export interface ForwarderOptions {
  readonly line: Pick<RelayConnection, 'transport'>
  readonly port: number
  /** The bearer token that clients must send; null if none is required. */
  readonly token: string | null
}

export interface Forwarder { readonly port: number, close (): Promise<void> }

/**
 * A loopback port through which local programs reach the connected node. Each request runs as the device,
 * whatever credential its client sends. Refuses foreign web pages and host names, as the node's own port
 * does. Rejects if the port is in use.
 */
export async function openForwarder (options: ForwarderOptions): Promise<Forwarder> {
  const server: Server = createServer((incoming, outgoing) => {
    void forward(incoming, outgoing, options, portOf(server))
  })
  server.maxConnections = CONNECTIONS
  server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    void forwardSocket({ incoming, socket, head }, options, portOf(server))
  })
  server.listen({ host: '127.0.0.1', port: options.port })
  await once(server, 'listening')
  return {
    port: portOf(server),
    async close () {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    }
  }
}

const portOf = (server: Server): number => (server.address() as AddressInfo | null)?.port ?? 0

async function forward (
  incoming: IncomingMessage, outgoing: ServerResponse, options: ForwarderOptions, port: number
): Promise<void> {
  const gone = new AbortController()
  outgoing.once('close', () => { gone.abort(new Error('the client disconnected')) })
  try {
    const call = await callFor(incoming, options, port, gone.signal)
    outgoing.once('close', () => { call.destroy() })
    incoming.pipe(call)
    const [response] = await once(call, 'response', { signal: gone.signal }) as [IncomingMessage]
    call.on('error', () => { outgoing.destroy() })
    outgoing.writeHead(response.statusCode ?? 502, passedBack(response))
    response.on('error', () => { outgoing.destroy() }).pipe(outgoing)
  } catch (error) {
    if (gone.signal.aborted) return
    if (outgoing.headersSent) outgoing.destroy()
    else refuse(outgoing, error)
  }
}

interface Answered { readonly response: IncomingMessage, readonly far?: Duplex, readonly rest?: Buffer }

interface Upgrade { readonly incoming: IncomingMessage, readonly socket: Duplex, readonly head: Buffer }

async function forwardSocket (
  { incoming, socket, head }: Upgrade, options: ForwarderOptions, port: number
): Promise<void> {
  socket.on('error', () => {})
  const gone = new AbortController()
  socket.once('close', () => { gone.abort(new Error('the client disconnected')) })
  try {
    const call = await callFor(incoming, options, port, gone.signal)
    socket.once('close', () => { call.destroy() })
    call.end()
    const answered = await new Promise<Answered>((resolve, reject) => {
      call.once('error', reject)
      call.once('response', (response: IncomingMessage) => { resolve({ response }) })
      call.once('upgrade', (response: IncomingMessage, far: Duplex, rest: Buffer) => {
        resolve({ response, far, rest })
      })
    })
    const { response, far, rest = Buffer.alloc(0) } = answered
    socket.write(headOf(response, far !== undefined))
    if (far === undefined) {
      response.pipe(socket)
      return
    }
    far.on('error', () => { socket.destroy() }).once('close', () => { socket.destroy() })
    socket.once('close', () => { far.destroy() })
    socket.write(rest)
    far.write(head)
    far.pipe(socket).pipe(far)
  } catch (error) {
    const svc = asRefusal(error)
    const body = JSON.stringify(errorBody(svc, randomUUID()))
    socket.end(`HTTP/1.1 ${svc.status} Refused\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `connection: close\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }
}

/** Creates the request to the node; the caller writes its body. Throws the error to send to the client. */
async function callFor (
  incoming: IncomingMessage, { line, token }: ForwarderOptions, port: number, signal: AbortSignal
): Promise<ClientRequest> {
  guard(incoming, token, port)
  const { bearer, channel } = await line.transport()
  const authorization = `Bearer ${await bearer()}`
  const call = request({
    method: incoming.method, path: incoming.url, createConnection: carrier(await channel.mux.open(signal)),
    headers: { ...passedOn(incoming), host: 'relay', authorization },
    setHost: false
  })
  // Ignored here, because the caller that awaits the response gets this error too.
  return call.on('error', () => {})
}

/** Throws unless the request is for this port, has the token and does not come from a foreign web page. */
function guard (
  { headers, method = '', rawHeaders }: IncomingMessage, token: string | null, port: number
): void {
  const served = {
    addresses: new Set(['127.0.0.1']), port, allowedHosts: [], allowedOrigins: [], secure: false
  }
  const hosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'host').length
  if (hosts !== 1 || !hostAllowed(headers.host, served)) {
    throw kernelError('misdirected', `This port accepts requests for http://127.0.0.1:${port} only.`)
  }
  const one = (value: string | string[] | undefined): string | undefined =>
    Array.isArray(value) ? value[0] : value
  const hints = {
    origin: headers.origin, site: one(headers['sec-fetch-site']), mode: one(headers['sec-fetch-mode'])
  }
  if (foreignPage(hints, method, served)) throw kernelError('foreign_origin')
  if (token !== null && !sameText(shown(headers) ?? '', token)) {
    throw kernelError('unauthenticated', 'This port requires the token that `svc device serve` printed.')
  }
}

function shown (headers: IncomingMessage['headers']): string | undefined {
  const offered = headers['sec-websocket-protocol']?.split(',').map((one) => one.trim())
    .find((one) => one.startsWith(BEARER))
  const key = headers['x-api-key']
  return /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ??
    (typeof key === 'string' ? key : offered?.slice(BEARER.length))
}

const hashed = (text: string): Buffer => createHash('sha256').update(text).digest()
const sameText = (a: string, b: string): boolean => timingSafeEqual(hashed(a), hashed(b))

/** The client's headers to forward to the node. */
function passedOn ({ headers, rawHeaders }: IncomingMessage): Record<string, string | string[]> {
  const named = new Set((headers.connection ?? '').toLowerCase().split(',').map((one) => one.trim()))
  const passed: Record<string, string[]> = {}
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (NOT_PASSED.has(name) || named.has(name) || name.startsWith('sec-fetch-')) continue
    ;(passed[name] ??= []).push(rawHeaders[i + 1]!)
  }
  const protocols = headers['sec-websocket-protocol']?.split(',').map((one) => one.trim())
    .filter((one) => !one.startsWith(BEARER))
  return {
    ...passed, ...headers['transfer-encoding'] === undefined ? {} : { 'transfer-encoding': 'chunked' },
    ...headers.upgrade === undefined ? {} : { connection: 'upgrade', upgrade: headers.upgrade },
    ...protocols === undefined ? {} : { 'sec-websocket-protocol': protocols.join(', ') }
  }
}

/** The node's headers to return to the client. */
function passedBack ({ rawHeaders }: IncomingMessage): string[] {
  return rawHeaders.filter((_, i) => {
    const name = rawHeaders[i - i % 2]!.toLowerCase()
    return !['connection', 'keep-alive', 'transfer-encoding'].includes(name)
  })
}

/** Writes the response head for an upgrade by hand, because Node has detached its HTTP parser. */
function headOf (response: IncomingMessage, upgraded: boolean): string {
  const { rawHeaders, statusCode = 502, statusMessage = '' } = response
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`]
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    if (upgraded || !['connection', 'transfer-encoding'].includes(name)) {
      lines.push(`${rawHeaders[i]!}: ${rawHeaders[i + 1]!}`)
    }
  }
  if (!upgraded) lines.push('connection: close')
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** Maps internal errors to `unreachable`, because they stem from the lost connection. */
function asRefusal (error: unknown): SvcError {
  const svc = toSvcError(error)
  return svc.reason === 'internal'
    ? kernelError('unreachable', 'The connection through the relay was lost before the node responded.')
    : svc
}

function refuse (outgoing: ServerResponse, error: unknown): void {
  const svc = asRefusal(error)
  const body = JSON.stringify(errorBody(svc, randomUUID()))
  outgoing.writeHead(svc.status, {
    'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body),
    'connection': 'close'
  }).end(body)
}
