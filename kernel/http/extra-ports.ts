import { createServer, type Server, type Socket } from 'node:net'
import { secondLoopback } from '../boot/launcher.js'
import { isOwnServer } from '../net/addresses.js'
import { setRelayed } from './callers.js'
import { plainEvent } from './tls/port.js'
import type { IncomingMessage } from 'node:http'
import type { Listeners } from '../api/services.js'
import type { ServedNames } from './origin.js'

type Rewrite = (path: string) => string

/** Opens additional API ports. Their connections go to the main server, so that its limits apply. */
export class ExtraPorts {
  readonly #rewrites = new Map<number, Rewrite>()

  /** The request's URL, rewritten if it arrived at a port with a rewrite rule. */
  rewritten ({ url = '/', socket }: Pick<IncomingMessage, 'url' | 'socket'>): string {
    return this.#rewrites.get(socket.localPort ?? 0)?.(url) ?? url
  }

  servedAt (port: number | undefined, served: ServedNames): ServedNames {
    return port !== undefined && this.#rewrites.has(port) ? { ...served, port } : served
  }

  /** The service through which plugins open ports; `host` is called once the main server is listening. */
  of (app: { readonly server: Server }, host: () => string): Listeners {
    return {
      accept: (connection, { device }) => {
        setRelayed(connection, device)
        // A relayed connection carries plain HTTP even if the API uses TLS.
        app.server.emit(plainEvent(app.server), connection)
      },
      open: ({ port, rewrite, failed }) => {
        const give = (socket: Socket): void => { app.server.emit('connection', socket) }
        const server = isOwnServer(createServer({ noDelay: true }, give)).on('error', failed)
        const also = isOwnServer(createServer({ noDelay: true }, give))
        also.on('error', () => { /* The machine may have no IPv6. */ })
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
            // The main server closes the connections of this port.
            server.close()
            also.close()
          }
        }
      }
    }
  }
}

const portOf = (server: Server): number => (server.address() as { port: number }).port
