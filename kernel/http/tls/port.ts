import { createServer as createHttp } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import { kernelError } from '../../api/errors.js'
import { refuse } from '../malformed-request.js'
import type { IncomingMessage, Server as HttpServer, ServerResponse } from 'node:http'
import type { Server as HttpsServer, ServerOptions as HttpsOptions } from 'node:https'
import type { Socket } from 'node:net'
import type { ServerIdentity } from './identity.js'

/** Content type of the first record of a TLS handshake (RFC 8446 5.1). */
const HANDSHAKE = 0x16
/** Milliseconds for a client's first byte, and for a whole request without TLS. */
const FIRST_MS = 10_000

/** Milliseconds for a client's TLS handshake. */
const HANDSHAKE_MS = 10_000

/**
 * Key exchange groups. A client that has not authenticated picks one and makes the server compute: 95 ms with
 * ffdhe8192, which Node allows by default, about 1 ms with these.
 */
export const KEY_GROUPS = 'X25519:P-256:P-384'

/** TLS 1.2 or later; for 1.2 the ciphers recommended by RFC 9325 4.2, without CBC and CCM. */
const secureContext = {
  minVersion: 'TLSv1.2', ecdhCurve: KEY_GROUPS,
  ciphers: 'TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:' +
    'ECDHE+AESGCM:ECDHE+CHACHA20'
} as const

export const tlsOf = ({ key, cert }: ServerIdentity): HttpsOptions =>
  ({ key, cert, ...secureContext, handshakeTimeout: HANDSHAKE_MS })

export const isTls = (server: object): server is HttpsServer => server instanceof TlsServer

/** Sets the identity that a server presents on new connections. */
export function showIdentity (server: object, { key, cert }: ServerIdentity): void {
  if (isTls(server)) server.setSecureContext({ key, cert, ...secureContext })
}

/** Name of the server event for a connection that carries plain HTTP. */
export const plainEvent = (server: object): 'connection' | 'secureConnection' =>
  isTls(server) ? 'secureConnection' : 'connection'

/**
 * Makes a new TLS server answer plain HTTP: it redirects browsers if it serves their host, and explains the
 * error to other clients. Plain requests never reach a route.
 */
export function answerInClear (server: HttpsServer, isServed: (host: string) => boolean): void {
  // Node's own listener, which starts TLS on each connection.
  const secure = server.listeners('connection') as ((this: HttpsServer, socket: Socket) => void)[]
  server.removeAllListeners('connection')
  const clear = createHttp({ maxHeaderSize: 16 * 1024 },
    (request, response) => { tellTls(request, response, isServed) })
  server.on('connection', (socket: Socket) => {
    firstByte(socket, (byte) => {
      if (byte === HANDSHAKE) for (const begin of secure) begin.call(server, socket)
      else serveInClear(clear, socket)
    })
  })
  server.on('tlsClientError', (_error, socket) => { socket.destroy() })
}

/** Waits for the first byte, puts it back and calls `then`. */
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

function tellTls (
  { method, url = '/', headers, socket }: IncomingMessage, response: ServerResponse,
  isServed: (host: string) => boolean
): void {
  const { host } = headers
  const named = host !== undefined && isServed(host)
  const at = `https://${named ? host : 'HOST:PORT'}`
  const page = (method === 'GET' || method === 'HEAD') && headers.accept?.includes('text/html') === true
  const away = page && named && url.startsWith('/')
  const error = kernelError('tls_required', `This port speaks TLS only: use ${at}`)
  Object.assign(error.headers, { connection: 'close', ...away ? { location: at + url } : {} })
  // Closes without reading the rest of the request.
  response.once('finish', () => { socket.destroySoon() })
  refuse(response, error, away ? 307 : error.status)
}
