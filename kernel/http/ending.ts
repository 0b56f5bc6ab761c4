import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { kernelError } from '../api/errors.js'
import { plainEvent } from './tls/port.js'
import type { SvcError } from '../api/errors.js'

/** Calls `end` once the credential of a request has ended; returns what stops that. */
export type Follow = (end: (why: SvcError) => void) => () => void

/**
 * The one abort signal of a request: client gone, deadline, credential ended, plugin or node stops. Created
 * on first use, since most handlers never need it.
 */
export class Ending {
  readonly #reply: FastifyReply
  readonly #follow: Follow | undefined
  #controller: AbortController | undefined
  #reason: SvcError | undefined
  #unfollow: (() => void) | undefined

  constructor (reply: FastifyReply, follow?: Follow) {
    this.#reply = reply
    this.#follow = follow
  }

  get signal (): AbortSignal {
    this.#controller ??= this.#watch()
    return this.#controller.signal
  }

  abort (reason: SvcError): void {
    this.#reason ??= reason
    this.#controller?.abort(reason)
  }

  done (): void { this.#unfollow?.() }

  #watch (): AbortController {
    const controller = new AbortController()
    const { raw } = this.#reply
    const onClose = (): void => {
      if (!raw.writableFinished) this.abort(kernelError('cancelled', 'The client went away.'))
    }
    const onLeft = (): void => {
      this.abort(kernelError('cancelled', 'The client ended its side of the connection before the answer.'))
    }
    if (hasLeft(raw)) onLeft()
    else if (raw.destroyed) onClose()
    else raw.once('left', onLeft).once('close', onClose)
    this.#unfollow = this.#follow?.((why) => { this.abort(why) })
    if (this.#reason !== undefined) controller.abort(this.#reason)
    return controller
  }
}

const left = new WeakSet<ServerResponse>()

/** Whether the client ended its side of the connection before its answer began. */
export const hasLeft = (response: ServerResponse): boolean => left.has(response)

/**
 * A client may end its side after the request and still read, or be gone. The response emits `left`, which
 * aborts what it started; an answer or error is still sent. An open stream is cut: half-closing is how
 * clients stop following.
 */
export function answerHalfClosed (
  server: Server
): (request: IncomingMessage, response: ServerResponse) => void {
  const pending = new WeakMap<Socket, ServerResponse>()
  // Not in Node's types. Without it Node ends its side at once, before the answer.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on(plainEvent(server), (socket: Socket) => {
    // Not sooner: whoever leaves within a TLS handshake would stay until the time for it is over.
    socket.allowHalfOpen = true
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
