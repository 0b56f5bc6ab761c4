import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { text } from 'node:stream/consumers'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { raceAbort } from '../api/clock.js'
import { kernelError } from '../api/errors.js'
import type { FastifyRequest } from 'fastify'
import type { Caller } from '../api/plugin.js'
import type { HttpListener } from './http-listener.js'
import type { LocalApi, LocalRequest, OwnStream } from '../api/services.js'

/** Header with a secret key that identifies this node's requests to itself. */
const OWN_HEADER = 'x-svc-own'

/** Sends requests to this node's own API without a socket, each on behalf of a caller. */
export class LocalRequests {
  readonly #asked = new Map<string, Pick<LocalRequest, 'caller' | 'signal'>>()

  /**
   * Caller of a request that this node made to itself; the request ends when its signal aborts. Undefined for
   * all other requests. Throws `cancelled` if the signal aborted before the request began.
   */
  callerOf ({ headers }: FastifyRequest, response: ServerResponse): Caller | undefined {
    const key = headers[OWN_HEADER]
    const asked = typeof key === 'string' ? this.#asked.get(key) : undefined
    if (asked === undefined) return undefined
    const { caller, signal } = asked
    if (signal.aborted) throw kernelError('cancelled')
    signal.addEventListener('abort', () => { response.destroy() }, { once: true })
    return caller
  }

  of (app: Pick<HttpListener, 'inject'>): LocalApi {
    return {
      ask: async (question) => {
        const { status, bytes } = await this.#open(app, question)
        return { status, text: await raceAbort(text(bytes), question.signal) }
      },
      open: async (question) => await this.#open(app, question)
    }
  }

  async #open (
    app: Pick<HttpListener, 'inject'>,
    { path, method = 'GET', body, accept, caller, signal: given }: LocalRequest
  ): Promise<OwnStream> {
    const { signal, letGo } = following(given)
    const key = randomUUID()
    this.#asked.set(key, { caller, signal })
    const asked = app.inject({
      method, url: path, payloadAsStream: true,
      headers: { [OWN_HEADER]: key, ...accept === undefined ? {} : { accept } },
      ...body === undefined ? {} : { payload: body }
    })
    asked.then((answer) => { answer.stream().once('close', letGo) }, letGo)
      .finally(() => { this.#asked.delete(key) })
    const answer = await raceAbort(asked, signal)
    const headers = answer.headers as IncomingHttpHeaders
    return { status: answer.statusCode, headers, bytes: answer.stream() }
  }
}

/** A signal that follows another one until released, since listeners on a long-lived signal would pile up. */
function following (signal: AbortSignal): { signal: AbortSignal, letGo: () => void } {
  signal.throwIfAborted()
  const own = new AbortController()
  const follow = (): void => { own.abort(signal.reason) }
  // Asking many nodes simultaneously adds many listeners, which is not a leak.
  setMaxListeners(0, signal)
  signal.addEventListener('abort', follow, { once: true })
  return { signal: own.signal, letGo: () => { signal.removeEventListener('abort', follow) } }
}
