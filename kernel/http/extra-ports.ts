import { createServer } from 'node:net'
import { secondLoopback } from '../boot/launcher.js'
import { isOwnServer } from '../net/addresses.js'
import { setRelayed } from './callers.js'
import { plainEvent } from './tls/port.js'
import type { Server, Socket } from 'node:net'
import type { IncomingMessage } from 'node:http'
import type { Listeners } from '../api/services.js'
import type { ServedNames } from './origin.js'

type Rewrite = (path: string) => string

/** Further ports of the public API. They pass their connections to the one server, so its limits apply. */
export class ExtraPorts {
  readonly #rewrites = new Map<number, Rewrite>()

  /** The URL of a request, rewritten for the routes. */
  rewritten ({ url = '/', socket }: Pick<IncomingMessage, 'url' | 'socket'>): string {
    return this.#rewrites.get(socket.localPort ?? 0)?.(url) ?? url
  }

  servedAt (port: number | undefined, served: ServedNames): ServedNames {
    return port !== undefined && this.#rewrites.has(port) ? { ...served, port } : served
  }

  /** The service with which plugins open them; `host` is called once the server itself listens. */
  of (app: { readonly server: Server }, host: () => string): Listeners {
    return {
      accept: (connection, { device }) => {
        setRelayed(connection, device)
        // The inner bytes are plain HTTP, even if the port speaks TLS.
        app.server.emit(plainEvent(app.server), connection)
      },
      open: ({ port, rewrite, failed }) => {
        const give = (socket: Socket): void => { app.server.emit('connection', socket) }
        const server = isOwnServer(createServer({ noDelay: true }, give)).on('error', failed)
        const also = isOwnServer(createServer({ noDelay: true }, give))
        also.on('error', () => { /* There may be no IPv6. */ })
        server.once('listening', () => {
          this.#rewrites.set(portOf(server), rewrite)
          const second = secondLoopback(host())
          if (second !== undefined) also.listen({ host: second, port: portOf(server) })
        })
        const listen = (): void => { server.listen({ host: host(), port }) }
        if (app.server.listening) listen()
        else app.server.once('listening', listen)
        return {
          port: () => server.listening ? portOf(server) : null,
          close: () => {
            app.server.off('listening', listen)
            this.#rewrites.delete(server.listening ? portOf(server) : 0)
            // Connections end with those of the server that received them.
            server.close()
            also.close()
          }
        }
      }
    }
  }
}

const portOf = (server: Server): number => (server.address() as { port: number }).port
