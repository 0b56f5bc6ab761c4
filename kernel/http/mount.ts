import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Reply } from '../define.js'
import { kernelError, SvcError, toSvcError } from '../errors.js'
import { requireAuthority } from './access.js'
import { callerOf, sendError } from './server.js'
import { openStream } from './stream-writer.js'
import type { Clock } from '../clock.js'
import type { Caller, Logger, RouteDecl, RouteRequest, StreamWriter } from '../define.js'
import type { JsonSchema } from '../schema.js'
import type { HttpLimits } from './server.js'

/** A declared route with its handler. */
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
  /** Aborts when the node stops for good. */
  stopping: AbortSignal
  /** Tests only: checks every answer against the route's declared reply. */
  checkReply?: (route: MountedRoute, body: unknown) => void
}

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
  const { decl } = route
  app.route({
    method: decl.method,
    url: decl.url,
    exposeHeadRoute: decl.method === 'GET' && decl.stream !== true,
    schema: {
      querystring: decl.query ?? NO_QUERY,
      ...(decl.params === undefined ? {} : { params: decl.params }),
      ...(decl.body === undefined ? {} : { body: decl.body })
    },
    ...(decl.bodyLimit === undefined ? {} : { bodyLimit: decl.bodyLimit }),
    onRequest: async (request) => {
      if (options.draining()) throw kernelError('shutting_down')
      requireAuthority(callerOf(request), decl.authority)
    },
    handler: async (request, reply) => { await serve(route, request, reply, options, streams) }
  })
}

async function serve (
  route: MountedRoute, request: FastifyRequest, reply: FastifyReply, options: MountOptions,
  streams: StreamCount
): Promise<void> {
  const abort = abortOnEnd(request, reply, options)
  let stream: StreamWriter | undefined
  let release = (): void => {}
  const req: RouteRequest = {
    params: request.params,
    query: request.query,
    body: request.body,
    headers: request.headers as RouteRequest['headers'],
    caller: callerOf(request),
    requestId: request.id,
    signal: abort.signal,
    open (head) {
      release = streams.open(callerOf(request))
      reply.hijack()
      reply.raw.once('close', release)
      const headers = { ...reply.getHeaders() as Record<string, string>, ...head.headers }
      stream = openStream(reply.raw, { ...head, headers }, {
        clock: options.clock, stallMs: head.stallMs ?? options.limits.streamStallMs, onClose: release
      })
      return stream
    }
  }
  try {
    const result = await (route.decl.stream === true
      ? route.handler(req)
      : withDeadline(route.handler(req), route, options, abort))
    if (stream === undefined) sendResult(route, reply, result, options)
    else if (!stream.closed) await stream.end()
  } catch (error) {
    const svc = explain(error, route, request.id, options)
    if (stream === undefined) sendError(reply, svc, request.id)
    else stream.cut()
  } finally {
    abort.done()
  }
}

function explain (error: unknown, route: MountedRoute, requestId: string, options: MountOptions): SvcError {
  if (!(error instanceof SvcError)) {
    const fields = { err: error, requestId, plugin: route.owner, route: route.name }
    options.log.error(fields, 'a route handler failed')
  }
  return toSvcError(error)
}

function sendResult (route: MountedRoute, reply: FastifyReply, result: unknown, options: MountOptions): void {
  const answer = result instanceof Reply ? result : new Reply(result)
  if (answer.status === 200) options.checkReply?.(route, answer.body)
  void reply.code(answer.status).headers(answer.headers)
  if (route.decl.produces !== undefined) {
    void reply.type(route.decl.produces).send(answer.body)
  } else {
    void reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body ?? null))
  }
}

interface Ending { signal: AbortSignal, abort: (reason: SvcError) => void, done: () => void }

/** One abort signal from the socket: the client went away, the deadline passed or the node stops. */
function abortOnEnd (request: FastifyRequest, reply: FastifyReply, options: MountOptions): Ending {
  const controller = new AbortController()
  const onClose = (): void => {
    if (!reply.raw.writableFinished) controller.abort(kernelError('cancelled', 'The client went away.'))
  }
  const onStop = (): void => { controller.abort(kernelError('shutting_down')) }
  reply.raw.once('close', onClose)
  options.stopping.addEventListener('abort', onStop, { once: true })
  return {
    signal: controller.signal,
    abort: (reason) => { controller.abort(reason) },
    done () { options.stopping.removeEventListener('abort', onStop) }
  }
}

async function withDeadline (
  work: unknown, route: MountedRoute, options: MountOptions, ending: Ending
): Promise<unknown> {
  if (!(work instanceof Promise)) return work
  const ms = route.decl.deadlineMs ?? options.limits.handlerTimeoutMs
  return await new Promise((resolve, reject) => {
    const cancel = options.clock.after(ms, () => {
      const late = kernelError('timeout', `No answer within ${ms / 1000} seconds.`)
      ending.abort(late)
      reject(late)
    })
    work.then(resolve, reject).finally(cancel)
  })
}

/** Which methods fit a concrete path, for 405 answers. */
export function methodFinder (routes: readonly RouteDecl[]): (path: string) => string[] {
  const table = routes.map(({ method, url }) => ({ method, pattern: pathPattern(url) }))
  return (path) => [...new Set(table.filter((r) => r.pattern.test(path)).map((r) => r.method))]
}

function pathPattern (url: string): RegExp {
  const parts = url.split('/').map((part) => {
    if (part === '*') return '.*'
    return part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
  return new RegExp(`^${parts.join('/')}$`)
}
