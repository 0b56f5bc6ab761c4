import { randomUUID } from 'node:crypto'
import { raceAbort } from '../api/clock.js'
import type { FastifyInstance, FastifyRequest, InjectOptions } from 'fastify'
import type { Caller } from '../api/plugin.js'
import type { OwnAnswer, OwnApi, OwnQuestion } from '../api/services.js'

/** Carries the key of a request that this node makes of itself; nobody else can know the key. */
const OWN_HEADER = 'x-svc-own'

/** The requests that this node makes of its own API, without a socket, each in the name of a caller. */
export class OwnRequests {
  readonly #callers = new Map<string, Caller>()

  /** In whose name the node itself makes this request; undefined for every request from outside. */
  callerOf ({ headers }: FastifyRequest): Caller | undefined {
    const key = headers[OWN_HEADER]
    return typeof key === 'string' ? this.#callers.get(key) : undefined
  }

  /** The service by which plugins make such requests. */
  of (app: FastifyInstance): OwnApi {
    return { ask: async (question) => await this.#ask(app, question) }
  }

  async #ask (
    app: FastifyInstance, { path, method = 'GET', body, caller, signal }: OwnQuestion
  ): Promise<OwnAnswer> {
    signal.throwIfAborted()
    const key = randomUUID()
    this.#callers.set(key, caller)
    const request: InjectOptions = {
      method, url: path, headers: { [OWN_HEADER]: key }, signal,
      ...body === undefined ? {} : { payload: body }
    }
    try {
      const answer = await raceAbort(app.inject(request), signal)
      return { status: answer.statusCode, text: answer.payload }
    } finally {
      this.#callers.delete(key)
    }
  }
}
