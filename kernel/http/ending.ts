import type { FastifyReply } from 'fastify'
import { kernelError } from '../api/errors.js'
import { hasLeft } from './half-close.js'
import type { SvcError } from '../api/errors.js'

/**
 * One abort signal from the socket: the client went away, the deadline passed or the node stops. It is made
 * when a handler first asks for it; most answer without.
 */
export class Ending {
  readonly #reply: FastifyReply
  readonly #stopping: AbortSignal
  readonly #onStop = (): void => { this.abort(kernelError('shutting_down')) }
  #controller: AbortController | undefined
  #reason: SvcError | undefined

  constructor (reply: FastifyReply, stopping: AbortSignal) {
    this.#reply = reply
    this.#stopping = stopping
  }

  get signal (): AbortSignal {
    this.#controller ??= this.#watch()
    return this.#controller.signal
  }

  abort (reason: SvcError): void {
    this.#reason ??= reason
    this.#controller?.abort(reason)
  }

  done (): void {
    if (this.#controller !== undefined) this.#stopping.removeEventListener('abort', this.#onStop)
  }

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
    if (this.#stopping.aborted) this.#onStop()
    else this.#stopping.addEventListener('abort', this.#onStop, { once: true })
    if (this.#reason !== undefined) controller.abort(this.#reason)
    return controller
  }
}
