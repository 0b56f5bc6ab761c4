import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Reply } from '../api/plugin.js'
import { kernelError, SvcError, toSvcError } from '../api/errors.js'
import { bounded } from '../api/bounds.js'
import { schemaChecker } from '../api/validate.js'
import { authorize } from './access.js'
import { remoteOf } from './arrival.js'
import { audited, isAudited } from './audited.js'
import { Ending, hasLeft } from './ending.js'
import { encodedHeaders, errorBody } from './error-body.js'
import { jsonText } from './json.js'
import { memberOf } from './passed-on.js'
import { namesModel, refuseOddModel } from './model-path.js'
import { refusalHook } from './refused.js'
import { arrivalOf, callerOf, enteredHere, noteArrival, sendError } from './server.js'
import { LAST_WORDS_MS } from './standing.js'
import { ignoreUnknown } from './unknown-fields.js'
import { openStream } from './stream-writer.js'
import type { WebSocket } from 'ws'
import type { Audit } from '../api/audit.js'
import type { Clock } from '../api/clock.js'
import type {
  Caller, Logger, RouteDecl, RouteRequest, SocketRequest, StreamHead, StreamWriter
} from '../api/plugin.js'
import type { JsonSchema } from '../api/schema.js'
import type { Tracers } from '../observe/tracer.js'
import type { Follow } from './ending.js'
import type { OpenWork, Unfinished } from './open-work.js'
import type { HttpLimits } from './limits.js'
import type { Standing } from './standing.js'

export interface MountedRoute {
  owner: string
  name: string
  decl: RouteDecl
  handler: (request: RouteRequest) => unknown
}

export interface MountOptions {
  clock: Clock
  log: Logger
  limits: HttpLimits
  /** True while the node lets open work end and takes no more. */
  draining: () => boolean
  work: OpenWork
  /** Ends what is open together with its credential. */
  standing: Standing
  /** Says whether the arrival of requests is to be noted. */
  tracers?: Pick<Tracers, 'on'>
  /** Called for every streamed answer that either side cut off, with the plugin that owns the route. */
  cut?: (owner: string) => void
  /** The audit, if a plugin provides it. */
  audit?: () => Audit | undefined
  /** Tests only: an answer that is not as its route declares is a defect. */
  strict?: boolean
}

/** Grace period for a reader to receive the end of its stream, ms. */
const TELL_MS = 2000

/** Without a declared query no parameter is accepted: a misspelt one is an error, not ignored. */
const NO_QUERY: JsonSchema = { type: 'object', additionalProperties: false }

/** Counts open streams by caller. */
export interface StreamCount { open (caller: Caller): () => void, readonly total: number }

/** At most `limit` open streams per caller; one more is `overloaded`. */
export function createStreamCount (limit: number): StreamCount {
  const held = new Map<string, number>()
  return {
    open (caller) {
      const now = held.get(caller.id) ?? 0
      if (now >= limit) {
        throw kernelError('overloaded',
          `${now} streams are open for this credential; at most ${limit} may be.`,
          { retryAfterSeconds: 5 })
      }
      held.set(caller.id, now + 1)
      let released = false
      return () => {
        if (released) return
        released = true
        const left = held.get(caller.id)! - 1
        if (left > 0) held.set(caller.id, left)
        else held.delete(caller.id)
      }
    },
    get total () { return [...held.values()].reduce((a, b) => a + b, 0) }
  }
}

/** Puts one route on the server: authority first, then schemas, then the handler under its deadline. */
export function mount (
  app: FastifyInstance, route: MountedRoute, options: MountOptions, streams: StreamCount
): void {
  const [{ decl }, { audit }] = [route, options]
  const kept = audit !== undefined && isAudited(decl)
  const served = kept ? { ...route, handler: audited(route, audit) as MountedRoute['handler'] } : route
  app.route({
    method: decl.method,
    url: decl.url,
    exposeHeadRoute: decl.method === 'GET',
    config: {
      failure: decl.failure, idHeader: decl.idHeader, owner: route.owner, anyContentType: decl.anyContentType
    },
    schema: {
      querystring: bounded(decl.query ?? NO_QUERY),
      ...(decl.params === undefined ? {} : { params: bounded(decl.params) }),
      ...(decl.body === undefined ? {} : { body: bounded(decl.body) })
    },
    ...(decl.bodyLimit === undefined ? {} : { bodyLimit: decl.bodyLimit }),
    onRequest: (request, _reply, done) => {
      if (options.draining()) throw kernelError('shutting_down')
      if (options.tracers?.on === true) noteArrival(request, options.clock.mono())
      authorize(callerOf(request), decl, memberOf(request.raw.socket))
      done()
    },
    ...(namesModel(decl.url) ? { preValidation: checkModel } : {}),
    ...(decl.api === undefined || decl.body === undefined ? {} : ignoreUnknown(decl.body)),
    ...(kept ? refusalHook(decl, audit) : {}),
    handler: (request, reply) => new Exchange(served, request, reply, options, streams).serve()
  })
}

/** Close code of a WebSocket whose credential has ended. */
const CREDENTIAL_ENDED = 4401

/** Watches the credential of a request; undefined when this node saw none. */
function followOf (request: FastifyRequest, standing: Standing): Follow | undefined {
  if (!enteredHere(request)) return undefined
  const { id } = callerOf(request)
  return (end) => standing.watch(id, end)
}

/** Puts a WebSocket into a scope of `socketScope`, behind the guards of all routes. */
export function mountSocket (
  scope: FastifyInstance, { decl, handler }: MountedRoute, { clock, draining, standing, work }: MountOptions,
  streams: StreamCount
): void {
  const serve = handler as (ws: WebSocket | RouteRequest, request?: SocketRequest) => unknown
  scope.route({
    method: 'GET',
    url: decl.url,
    onRequest: async (request) => {
      if (draining()) throw kernelError('shutting_down')
      authorize(callerOf(request), decl, memberOf(request.raw.socket))
      // An open session is an open stream; refused here, the answer is still an ordinary one.
      if (request.ws) request.raw.socket.once('close', streams.open(callerOf(request)))
    },
    handler: () => {
      throw kernelError('not_found', 'This path is a WebSocket; a plain request finds nothing here.')
    },
    wsHandler: (socket, request) => {
      const ending = new AbortController()
      const open: Unfinished = {
        abort: (why) => { work.leave(open); ending.abort(why) },
        abandon: () => {}
      }
      work.enter(open)
      socket.once('close', () => { work.leave(open) })
      const unwatch = followOf(request, standing)?.(({ message }) => {
        socket.close(CREDENTIAL_ENDED, message)
        clock.after(LAST_WORDS_MS, () => { socket.terminate() })
      })
      if (unwatch !== undefined) socket.once('close', unwatch)
      serve(socket, { caller: callerOf(request), signal: ending.signal })
    }
  })
}

function checkModel (request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  refuseOddModel((request.params as { model_id: string }).model_id)
  done()
}

/**
 * One request for its handler, and its answer. A class, and synchronous if the handler is: closures and
 * promises per request cost more than most handlers.
 */
class Exchange implements RouteRequest, Unfinished {
  readonly params: RouteRequest['params']
  readonly query: RouteRequest['query']
  readonly body: RouteRequest['body']
  readonly headers: RouteRequest['headers']
  readonly caller: Caller
  readonly requestId: string
  readonly remoteAddress: string
  readonly member: string | null
  readonly arrivedMs: number | undefined
  /** Audit details from the handler. */
  noted: Readonly<Record<string, unknown>> = {}
  readonly #route: MountedRoute
  readonly #options: MountOptions
  readonly #ending: Ending
  readonly #follow: Follow | undefined
  readonly #reply: FastifyReply
  readonly #streams: StreamCount
  /** The answer as a stream, once the handler has opened it. */
  #stream: StreamWriter | undefined
  #events = false
  #reject: ((error: SvcError) => void) | undefined

  constructor (
    route: MountedRoute, request: FastifyRequest, reply: FastifyReply, options: MountOptions,
    streams: StreamCount
  ) {
    this.params = request.params
    this.query = request.query
    this.body = request.body
    this.headers = request.headers as RouteRequest['headers']
    this.caller = callerOf(request)
    this.requestId = request.id
    this.remoteAddress = remoteOf(request)
    this.member = memberOf(request.raw.socket) ?? null
    this.arrivedMs = arrivalOf(request)
    this.#route = route
    this.#options = options
    this.#follow = followOf(request, options.standing)
    this.#ending = new Ending(reply, this.#follow)
    this.#reply = reply
    this.#streams = streams
  }

  get signal (): AbortSignal { return this.#ending.signal }

  note (detail: Readonly<Record<string, unknown>>): void { this.noted = { ...this.noted, ...detail } }

  open (head: StreamHead): StreamWriter {
    const { clock, limits } = this.#options
    const { raw } = this.#reply
    // The socket's close event has passed, so the stream's place would never be given back.
    if (raw.destroyed || hasLeft(raw)) throw kernelError('cancelled', 'The client went away.')
    const release = this.#streams.open(this.caller)
    this.#reply.hijack()
    // A stream has another limit for stalled readers.
    raw.removeAllListeners('timeout').on('timeout', () => {})
    const unwatch = this.#follow?.((why) => {
      this.#ending.abort(why)
      clock.after(LAST_WORDS_MS, () => { this.#stream?.cut() })
    })
    raw.once('close', () => {
      unwatch?.()
      release()
      if (!raw.writableEnded) this.#options.cut?.(this.#route.owner)
    })
    const headers = { ...this.#reply.getHeaders() as Record<string, string>, ...head.headers }
    const stallMs = head.stallMs ?? limits.streamStallMs
    this.#events = head.contentType.startsWith('text/event-stream')
    this.#stream = openStream(raw, { ...head, headers }, { clock, stallMs, onClose: release })
    if (this.#reply.request.method === 'HEAD') {
      void this.#stream.end()
      this.#ending.abort(kernelError('cancelled', 'An answer to HEAD has no body.'))
    }
    return this.#stream
  }

  /** Runs the handler and answers; resolves when a handler that works on has been answered. */
  serve (): Promise<void> | undefined {
    try {
      // Its body arrived after the plugin stopped.
      const { ending } = this.#options.work
      if (ending !== undefined) throw ending
      const result = this.#route.handler(this)
      if (isThenable(result) || this.#stream !== undefined) return this.#settle(Promise.resolve(result))
      sendResult(this.#route, this.#reply, result, this.#options)
    } catch (error) {
      this.#fail(error)
    }
    this.#ending.done()
    return undefined
  }

  abort (error: SvcError): void { this.#ending.abort(error) }

  abandon (error: SvcError): void {
    this.abort(error)
    this.#reject?.(error)
  }

  async #settle (handling: Promise<unknown>): Promise<void> {
    const { work } = this.#options
    work.enter(this)
    try {
      const result = await this.#inTime(handling)
      if (this.#stream === undefined) sendResult(this.#route, this.#reply, result, this.#options)
      else if (!this.#stream.closed) await this.#endStream(this.#stream, work.ending)
    } catch (error) {
      this.#fail(error)
    } finally {
      this.#ending.done()
      work.leave(this)
    }
  }

  /** The handler's result. A stream has no deadline; `abandon` ends the wait for either. */
  async #inTime (handling: Promise<unknown>): Promise<unknown> {
    const { decl: { stream, deadlineMs } } = this.#route
    const { clock, limits } = this.#options
    const ms = deadlineMs ?? limits.handlerTimeoutMs
    return await new Promise((resolve, reject) => {
      this.#reject = reject
      const cancel = stream === true ? undefined : clock.after(ms, () => {
        this.abandon(kernelError('timeout', `No answer within ${ms / 1000} seconds.`))
      })
      handling.then(resolve, reject).finally(cancel)
    })
  }

  /** Ends a stream. Followers return after a clean end, so a final end sends a last event first. */
  async #endStream (stream: StreamWriter, ending: SvcError | undefined): Promise<void> {
    if (ending === undefined || ending.retryable || !this.#events) { await stream.end(); return }
    const body = errorBody(ending, this.requestId)
    const told = this.#route.decl.failure?.(body, this.#reply.request.headers) ?? body
    const cancel = this.#options.clock.after(TELL_MS, () => { stream.cut() })
    stream.write(`event: error\ndata: ${JSON.stringify(told)}\n\n`)?.catch(() => {})
    await stream.end()
    cancel()
  }

  #fail (error: unknown): void {
    const svc = explain(error, this.#route, this.requestId, this.#options)
    const { ending } = this.#options.work
    if (this.#stream === undefined) sendError(this.#reply, svc, this.requestId)
    else if (ending?.retryable === false && this.#events && !this.#stream.closed) {
      void this.#endStream(this.#stream, ending)
    } else if (!this.#stream.closed) this.#stream.cut()
  }
}

const isThenable = (value: unknown): boolean =>
  typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function'

function explain (error: unknown, route: MountedRoute, requestId: string, options: MountOptions): SvcError {
  if (!(error instanceof SvcError)) {
    const fields = { err: error, requestId, plugin: route.owner, route: route.name }
    options.log.error(fields, 'a route handler failed')
  }
  return toSvcError(error)
}

function sendResult (route: MountedRoute, reply: FastifyReply, result: unknown, options: MountOptions): void {
  const answer = result instanceof Reply ? result : new Reply(result)
  if (answer.status === 200 && options.strict === true) checkReply(route, answer.body)
  void reply.code(answer.status).headers(encodedHeaders(answer.headers))
  // Cacheable answers set one of the two.
  const keeps = reply.hasHeader('cache-control') || reply.hasHeader('etag')
  if (!keeps) void reply.header('cache-control', 'no-store')
  // Fastify would send the length of the missing body, which is that of another answer.
  if (answer.status === 304) {
    reply.hijack()
    reply.raw.writeHead(304, reply.getHeaders() as Record<string, string>).end()
    return
  }
  const own = reply.hasHeader('content-type')
  if (!own) void reply.type(route.decl.produces ?? 'application/json; charset=utf-8')
  void reply.send(own || route.decl.produces !== undefined ? answer.body : jsonText(answer.body))
}

function checkReply ({ decl }: MountedRoute, body: unknown): void {
  if (decl.reply === undefined) return
  const problem = schemaChecker(decl.reply)(JSON.parse(JSON.stringify(body ?? null)))
  if (problem !== null) throw new Error(`the answer of ${decl.method} ${decl.url}: ${problem}`)
}
