import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyReply } from 'fastify'
import { kernelError } from '../api/errors.js'
import { plainEvent } from './tls/port.js'
import type { SvcError } from '../api/errors.js'

/** Calls `end` once the credential of a request has ended; returns what stops that. */
export type Follow = (end: (why: SvcError) => void) => () => void

/**
 * The one abort signal of a request: the client went away, the deadline passed, its credential ended, the
 * plugin or the node stops. It is made when a handler first asks for it; most answer without.
 */
export class Ending {
  readonly #reply: FastifyReply
  readonly #follow: Follow | undefined
  #controller: AbortController | undefined
  #reason: SvcError | undefined
  #unfollow: (() => void) | undefined

  /** `follow`: calls back when the credential of the request ends, and returns what ends that. */
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
