import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

const left = new WeakSet<ServerResponse>()

/** Whether the client ended its side of the connection before its answer began. */
export const hasLeft = (response: ServerResponse): boolean => left.has(response)

/**
 * A client that ends its side after the request looks like one that is gone: what it started ends (the
 * response emits `left`). It gets what answer there is all the same, since it may still read: that of a
 * handler which does not care, or the error. A stream that is open is cut: who follows something leaves so.
 */
export function answerHalfClosed (
  server: Server
): (request: IncomingMessage, response: ServerResponse) => void {
  const pending = new WeakMap<Socket, ServerResponse>()
  // Not in Node's types. Without it Node ends its own side at once, whatever is still to be answered.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connection', (socket: Socket) => {
    socket.once('end', () => {
      const response = pending.get(socket)
      if (response === undefined || response.writableEnded) return
      if (response.headersSent) socket.destroy()
      else {
        left.add(response)
        response.emit('left')
      }
    })
  })
  return (request, response) => { pending.set(request.socket, response) }
}
