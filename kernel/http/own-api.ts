import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { raceAbort } from '../api/clock.js'
import type { FastifyRequest, InjectOptions } from 'fastify'
import type { Caller } from '../api/plugin.js'
import type { Front } from './front.js'
import type { OwnAnswer, OwnApi, OwnQuestion, OwnStream } from '../api/services.js'

/** Carries the secret key of this node's requests to itself. */
const OWN_HEADER = 'x-svc-own'

/** This node's requests to its API without a socket, each for a caller. */
export class OwnRequests {
  readonly #callers = new Map<string, Caller>()

  /** In whose name the node itself makes this request; undefined for every request from outside. */
  callerOf ({ headers }: FastifyRequest): Caller | undefined {
    const key = headers[OWN_HEADER]
    return typeof key === 'string' ? this.#callers.get(key) : undefined
  }

  /** The service by which plugins make such requests. */
  of (app: Pick<Front, 'inject'>): OwnApi {
    return {
      ask: async (question) => await this.#ask(app, question),
      open: async (question) => await this.#open(app, question)
    }
  }

  async #ask (app: Pick<Front, 'inject'>, question: OwnQuestion): Promise<OwnAnswer> {
    const { signal, letGo } = following(question.signal)
    try {
      return await this.#inject({ ...question, signal }, async (request) => {
        const answer = await raceAbort(app.inject(request), signal)
        return { status: answer.statusCode, text: answer.payload }
      })
    } finally {
      letGo()
    }
  }

  async #open (app: Pick<Front, 'inject'>, question: OwnQuestion): Promise<OwnStream> {
    const { signal, letGo } = following(question.signal)
    return await this.#inject({ ...question, signal }, async (request) => {
      // An aborted request goes on once its body is read: the response is what ends its work.
      const asked = app.inject({ ...request, payloadAsStream: true })
      asked.then((answer) => {
        const { raw: { res } } = answer
        answer.stream().once('close', letGo)
        if (signal.aborted) res.destroy()
        else signal.addEventListener('abort', () => { res.destroy() }, { once: true })
      }, letGo)
      const answer = await raceAbort(asked, signal)
      const headers = answer.headers as IncomingHttpHeaders
      return { status: answer.statusCode, headers, bytes: answer.stream() }
    })
  }

  async #inject<T> (
    { path, method = 'GET', body, accept, caller, signal }: OwnQuestion,
    inject: (request: InjectOptions) => Promise<T>
  ): Promise<T> {
    const key = randomUUID()
    this.#callers.set(key, caller)
    try {
      return await inject({
        method, url: path, signal,
        headers: { [OWN_HEADER]: key, ...accept === undefined ? {} : { accept } },
        ...body === undefined ? {} : { payload: body }
      })
    } finally {
      this.#callers.delete(key)
    }
  }
}

/** A signal that follows another until released, since listeners on a long-lived signal would pile up. */
function following (signal: AbortSignal): { signal: AbortSignal, letGo: () => void } {
  signal.throwIfAborted()
  const own = new AbortController()
  const follow = (): void => { own.abort(signal.reason) }
  // One question to each of many nodes at once is no leak.
  setMaxListeners(0, signal)
  signal.addEventListener('abort', follow, { once: true })
  return { signal: own.signal, letGo: () => { signal.removeEventListener('abort', follow) } }
}
