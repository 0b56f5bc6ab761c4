import { randomUUID } from 'node:crypto'
import { createServer as createHttp } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import { kernelError } from '../../api/errors.js'
import { errorBody } from '../error-body.js'
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http'
import type { Server as HttpsServer, ServerOptions as HttpsOptions } from 'node:https'
import type { Socket } from 'node:net'
import type { ServerIdentity } from './identity.js'

/** Content type of the first record of a TLS handshake (RFC 8446 5.1). */
const HANDSHAKE = 0x16
/** How long a client may take to send its first byte, and for a whole request in clear, ms. */
const FIRST_MS = 10_000

/** Longest time for the handshake of a client, ms. */
const HANDSHAKE_MS = 10_000

const MIN_VERSION = 'TLSv1.2'

/** What a server is made with that shows this identity: TLS 1.2 or later, with Node's ciphers. */
export const tlsOf = ({ key, cert }: ServerIdentity): HttpsOptions =>
  ({ key, cert, minVersion: MIN_VERSION, handshakeTimeout: HANDSHAKE_MS })

/** Whether a server speaks TLS. */
export const isTls = (server: object): server is HttpsServer => server instanceof TlsServer

/** Has a server show another identity from the next connection on. */
export function showIdentity (server: object, { key, cert }: ServerIdentity): void {
  if (isTls(server)) server.setSecureContext({ key, cert, minVersion: MIN_VERSION })
}

/** The event of a server by which a connection comes whose bytes are HTTP. */
export const plainEvent = (server: object): 'connection' | 'secureConnection' =>
  isTls(server) ? 'secureConnection' : 'connection'

/**
 * Lets a server that was just made answer clients which do not speak TLS: browsers are sent on, and others
 * told. What they send is looked at for that and goes no further.
 */
export function answerInClear (server: HttpsServer): void {
  // Node's own, by which each connection becomes a TLS one.
  const secure = server.listeners('connection') as ((this: HttpsServer, socket: Socket) => void)[]
  server.removeAllListeners('connection')
  const clear = createHttp({ maxHeaderSize: 16 * 1024 }, tellTls)
  server.on('connection', (socket: Socket) => {
    firstByte(socket, (byte) => {
      if (byte === HANDSHAKE) for (const begin of secure) begin.call(server, socket)
      else serveInClear(clear, socket)
    })
  })
  server.on('tlsClientError', (_error, socket) => { socket.destroy() })
}

/** Waits for the first byte, and leaves it to be read again. */
function firstByte (socket: Socket, then: (byte: number) => void): void {
  const giveUp = (): void => { socket.destroy() }
  socket.setTimeout(FIRST_MS, giveUp).on('error', giveUp).on('end', giveUp)
  const look = (): void => {
    const bytes = socket.read() as Buffer | null
    if (bytes === null) {
      if (!socket.destroyed) socket.once('readable', look)
      return
    }
    socket.setTimeout(0, giveUp).off('error', giveUp).off('end', giveUp)
    socket.unshift(bytes)
    then(bytes[0]!)
  }
  look()
}

function serveInClear (clear: HttpServer, socket: Socket): void {
  socket.setTimeout(FIRST_MS, () => { socket.destroy() })
  clear.emit('connection', socket)
}

function tellTls ({ method, url = '/', headers, socket }: IncomingMessage, response: ServerResponse): void {
  const { host } = headers
  const named = host !== undefined && /^[\w.:[\]-]+$/.test(host)
  const at = `https://${named ? host : 'HOST:PORT'}`
  const page = (method === 'GET' || method === 'HEAD') && headers.accept?.includes('text/html') === true
  const away = page && named && url.startsWith('/')
  const error = kernelError('tls_required', `This port speaks TLS only: use ${at}`)
  const body = JSON.stringify(errorBody(error, randomUUID()))
  response.writeHead(away ? 307 : error.status, {
    ...away ? { location: at + url } : {},
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close'
  })
  // What is still sent is not read.
  response.end(body, () => { socket.destroySoon() })
}
