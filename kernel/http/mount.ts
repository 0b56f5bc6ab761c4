import type { FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptions } from 'fastify'
import { kernelError, toSvcError } from '../api/errors.js'
import { bounded } from '../api/bounds.js'
import { authorize } from './access.js'
import { audited, isAudited, nameOf } from './audited.js'
import { LAST_WORDS_MS } from './credential-watch.js'
import { memberOf } from './forwarded.js'
import { namesModel, refuseOddModel } from './model-path.js'
import { RequestContext, type MountedRoute, type MountOptions } from './request-context.js'
import { callerOf, factsOf } from './server.js'
import { remoteOf } from './arrival.js'
import { relayedDevice } from './callers.js'
import { isObject, type JsonSchema } from '../api/schema.js'
import { invalid, printable } from './error-body.js'
import type { WebSocket } from 'ws'
import type { RouteRequest, SocketRequest, RouteDecl } from '../api/plugin.js'
import type { OpenRequest } from './open-requests.js'
import type { Audit, Change } from '../api/audit.js'

/** For routes that declare no query: refuses every parameter, so that a misspelt one is an error. */
const NO_QUERY: JsonSchema = { type: 'object', additionalProperties: false }

/** Adds a route to the server: checks authority, then schemas, then runs the handler with its time limit. */
export function mount (app: FastifyInstance, route: MountedRoute, options: MountOptions): void {
  const [{ decl }, { audit }] = [route, options]
  const kept = audit !== undefined && isAudited(decl)
  const served = kept ? { ...route, handler: audited(route, audit) as MountedRoute['handler'] } : route
  app.route({
    method: decl.method,
    url: decl.url,
    exposeHeadRoute: decl.method === 'GET',
    config: {
      failure: decl.failure, idHeader: decl.idHeader, owner: route.owner, anyContentType: decl.anyContentType,
      uploads: decl.uploads
    },
    schema: {
      querystring: bounded(decl.query ?? NO_QUERY),
      ...(decl.params === undefined ? {} : { params: bounded(decl.params) }),
      ...(decl.body === undefined ? {} : { body: bounded(decl.body) })
    },
    ...(decl.bodyLimit === undefined ? {} : { bodyLimit: decl.bodyLimit }),
    onRequest: (request, _reply, done) => {
      if (options.draining()) throw kernelError('shutting_down')
      if (options.tracers?.on === true) factsOf(request).svcArrivedMs = options.clock.mono()
      authorize(callerOf(request), decl, memberOf(request.raw.socket))
      done()
    },
    ...(namesModel(decl.url) ? { preValidation: checkModel } : {}),
    ...(decl.api === undefined || decl.body === undefined ? {} : ignoreUnknown(decl.body)),
    ...(kept ? refusalHook(decl, audit) : {}),
    handler: (request, reply) => new RequestContext(served, request, reply, options).serve()
  })
}

/** WebSocket close code for a credential that has expired or was revoked. */
const CREDENTIAL_ENDED = 4401

/** Adds a WebSocket route with the checks of any other route; `scope` comes from `socketScope`. */
export function mountSocket (
  scope: FastifyInstance, { decl, handler }: MountedRoute,
  { clock, credentials, draining, streams, work }: MountOptions
): void {
  const serve = handler as
    (ws: WebSocket | RouteRequest, request?: SocketRequest & { query: unknown }) => unknown
  scope.route({
    method: 'GET',
    url: decl.url,
    ...decl.query === undefined ? {} : { schema: { querystring: bounded(decl.query) } },
    onRequest: async (request) => {
      if (draining()) throw kernelError('shutting_down')
      authorize(callerOf(request), decl, memberOf(request.raw.socket))
      // Counts the WebSocket as an open stream before the upgrade, so that a refusal is an HTTP answer.
      if (request.ws) request.raw.socket.once('close', streams.open(callerOf(request)))
    },
    handler: () => {
      throw kernelError('not_found', 'This path accepts WebSockets only.')
    },
    wsHandler: (socket, request) => {
      const caller = callerOf(request)
      const ending = new AbortController()
      const open: OpenRequest = {
        abort: (why) => { work.leave(open); ending.abort(why) },
        abandon: () => {}
      }
      work.enter(open)
      socket.once('close', () => { work.leave(open) })
      if (factsOf(request).svcEntered) {
        socket.once('close', credentials.watch(caller.id, ({ message }) => {
          socket.close(CREDENTIAL_ENDED, message)
          clock.after(LAST_WORDS_MS, () => { socket.terminate() })
        }))
      }
      serve(socket, { caller, signal: ending.signal, query: request.query })
    }
  })
}

function checkModel (request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  refuseOddModel((request.params as { model_id: string }).model_id)
  done()
}

/** Reports to the audit the requests that were refused before their handler ran. */
function refusalHook (
  decl: RouteDecl, audit: () => Audit | undefined
): Pick<RouteShorthandOptions, 'onError'> {
  return {
    onError: (request, _reply, error: Error, done) => {
      const { status, reason } = toSvcError(error)
      const mine = memberOf(request.raw.socket) === undefined
      if (mine && (status === 401 || status === 403)) {
        audit()?.refused(changeOf(decl, request), { status, reason, detail: {} })
      }
      done()
    }
  }
}

function changeOf (decl: RouteDecl, request: FastifyRequest): Change {
  const caller = factsOf(request).svcCaller
  const device = relayedDevice(request.raw.socket)
  const from = device ?? remoteOf(request)
  return {
    who: caller?.id ?? 'anonymous', how: caller?.mode ?? (device === undefined ? 'direct' : 'relay'),
    what: nameOf(decl), detail: { from }, parts: [['params', decl.params, request.params]]
  }
}

/** Response header that lists the ignored fields in a body, separated by commas. */
const IGNORED_HEADER = 'x-svc-ignored'
/** Maximum number of names in the header. */
const NAMED_MOST = 16

/**
 * Removes fields that a foreign API's schema lacks and lists them in a header: its clients also send fields
 * meant for other servers and would fail if one were refused.
 */
const ignoreUnknown = (schema: JsonSchema): Pick<RouteShorthandOptions, 'preHandler'> => ({
  preHandler: (request, reply, done) => {
    const whole: Record<string, unknown> = isObject(request.body) ? { ...request.body } : {}
    const names = unknownIn(schema, request.body)
    keepExtra(schema, request.body,
      names.flatMap((name) => Object.hasOwn(whole, name) ? [[name, whole[name]]] : []))
    // `target_node` names the node that answers, so ignoring it would change the answer.
    if (names.includes('target_node')) {
      done(invalid([{ path: 'target_node', message: 'only works with /v1/capabilities/call and stream' }],
        'body'))
      return
    }
    const named = names.slice(0, NAMED_MOST).map(printable)
    if (named.length > 0) void reply.header(IGNORED_HEADER, named.join(', '))
    done()
  }
})

/**
 * Keeps fields that a schema lacks in `extra_body`, as OpenAI's clients call it, if the schema has that; not
 * those that the schema has, since they would avoid their checks.
 */
function keepExtra ({ properties }: JsonSchema, body: unknown, extra: [string, unknown][]): void {
  if (!isObject(body) || !isObject(properties) || !Object.hasOwn(properties, 'extra_body')) return
  const { extra_body: given } = body
  if (extra.length === 0 && !isObject(given)) return
  const all = [...extra, ...Object.entries(isObject(given) ? given : {})]
  Object.assign(body,
    { extra_body: Object.fromEntries(all.filter(([name]) => !Object.hasOwn(properties, name))) })
}

/** Removes fields that a schema lacks, except in list items, where clients send earlier answers back. */
function unknownIn ({ properties }: JsonSchema, value: unknown, path = ''): string[] {
  if (!isObject(properties) || !isObject(value)) return []
  return Object.keys(value).flatMap((key) => {
    if (Object.hasOwn(properties, key)) {
      return unknownIn(properties[key] as JsonSchema, value[key], `${path}${key}.`)
    }
    Reflect.deleteProperty(value, key)
    return [path + key]
  })
}
