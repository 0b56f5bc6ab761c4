import { randomUUID } from 'node:crypto'
import { Server, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Socket } from 'node:net'
import {
  fastify, type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest
} from 'fastify'
import fp from 'fastify-plugin'
import { kernelError, SvcError, type KernelReason } from '../api/errors.js'
import { compileLater, compileStrict, compileText, issuesOf } from '../api/validate.js'
import { credentialOf, header, hostOf, proxyList, remoteOf, targetOf } from './arrival.js'
import { expectBody, readJsonOnly } from './body.js'
import { relayedDevice } from './callers.js'
import { errorBody, errorHeaders, invalid, printable } from './error-body.js'
import { foreignPage, hostAllowed, type ServedNames } from './origin.js'
import { CALLER_HEADER, memberOf, readCaller } from './forwarded.js'
import { closeUnupgraded, limitStall } from './sockets.js'
import { isUnencrypted, isToken } from './tls/in-clear.js'
import cors from '@fastify/cors'
import type { ConnectionLimiter } from './connection-limiter.js'
import type { HttpListener } from './http-listener.js'
import type { LocalRequests } from './local-api.js'
import type { Caller, Logger, RouteDecl } from '../api/plugin.js'
import type { Arrival, Proof } from './access.js'
import type { HttpLimits } from './limits.js'
import type { Rewrite } from './model-path.js'
import type { PageOf } from '../api/cluster.js'

/** A route's error body format and request id header. */
export type ErrorFormat = Pick<RouteDecl, 'failure' | 'idHeader'>

export interface TableOptions extends PageSources {
  /** The HTTP listener in front of this route table. */
  front: Pick<HttpListener, 'limiter' | 'begins'>
  log: Logger
  limits: HttpLimits
  trustProxy: readonly string[]
  authenticate: (arrival: Arrival) => Proof
  /** Called for each request whose token others could read in transit. */
  tokenInClear?: (caller: Caller, socket: Socket) => void
  /** Limits a forwarded caller to the authorities that the forwarding member may vouch for. */
  vouchedBy: (member: string, caller: Caller) => Caller
  own?: LocalRequests
  methodsAt: (path: string) => readonly string[]
  /** Returns the error format for a path that matches no route. */
  errorFormatAt?: (path: string) => ErrorFormat
  rewrite: Rewrite
  /** Called with the route's plugin after each answer that was sent completely. */
  answered?: (owner: string | undefined, status: number) => void
}

/** Maximum length of a path parameter in characters; ids and model names fit. */
const MAX_PARAM_LENGTH = 512

/** Results from the hooks, kept in fields of every request. */
interface RequestFacts {
  /** Null until the access hook has run. */
  svcCaller: Caller | null
  /** True if this node checked the credential, which may become invalid before the answer. */
  svcEntered: boolean
  /** True if a web page of a member on another machine sent the request. */
  svcPageElsewhere: boolean
  svcOwn: boolean
  /** Arrival of a traced request in monotonic milliseconds. */
  svcArrivedMs: number | undefined
}

export const factsOf = (request: FastifyRequest): RequestFacts => request as FastifyRequest & RequestFacts

export function callerOf (request: FastifyRequest): Caller {
  const { svcCaller: caller } = factsOf(request)
  if (caller === null) throw kernelError('unauthenticated')
  return caller
}

/** Creates a route table with all limits and checks and the common error body; routes are mounted later. */
export function createTable (options: TableOptions): FastifyInstance {
  const { limits } = options
  const app = fastify({
    logger: false,
    genReqId: () => randomUUID(),
    trustProxy: options.trustProxy.length > 0 ? [...options.trustProxy] : false,
    bodyLimit: limits.bodyBytes,
    return503OnClosing: false,
    exposeHeadRoutes: false,
    // The listener owns the connections, so Fastify gets a server that never listens.
    serverFactory: () => new Server(),
    rewriteUrl: ({ method = '', url = '/' }) => options.rewrite(method, url),
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH, ignoreTrailingSlash: false },
    frameworkErrors: (error, request, reply) => {
      sendError(reply, fromFastify(error), request.id, options.errorFormatAt?.(pathOf(request)))
    }
  })
  // Without this, Fastify answers a QUERY request with a complaint about the body's type.
  app.addHttpMethod('QUERY', { overrideExisting: true })
  readJsonOnly(app)
  app.setValidatorCompiler(({ schema, httpPart }) => {
    if (httpPart !== 'body') return compileLater(compileText, schema as Record<string, unknown>)
    const check = compileLater(compileStrict, schema as Record<string, unknown>)
    return (value: unknown) => value instanceof Readable || check(value) || { error: check.errors! }
  })
  app.setSerializerCompiler(() => JSON.stringify)
  app.setSchemaErrorFormatter((errors, part) =>
    invalid(issuesOf(errors as Parameters<typeof issuesOf>[0]), part))
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const svc = fromFastify(error)
    if (svc.reason === 'internal') {
      options.log.error({ err: error, requestId: request.id }, 'a handler failed')
    }
    sendError(reply, svc, request.id)
  })
  app.setNotFoundHandler((request, reply) => {
    const format = options.errorFormatAt?.(pathOf(request))
    sendError(reply, notFound(options, request), request.id, format)
  })
  addHooks(app, options)
  return app
}

/**
 * Checks host and origin, then sets the CORS headers, then finds the caller, for every request and WebSocket
 * upgrade. In this order, an allowed page can read that its token was refused.
 */
function addHooks (app: FastifyInstance, options: TableOptions): void {
  const { answered } = options
  app.decorateRequest('svcCaller', null)
  app.decorateRequest('svcPageElsewhere', false)
  app.decorateRequest('svcOwn', false)
  app.decorateRequest('svcEntered', false)
  app.decorateRequest('svcArrivedMs', undefined)
  if (answered !== undefined) {
    app.addHook('onResponse', (request, reply, done) => {
      const { owner } = request.routeOptions.config as { owner?: string }
      // Requests of this node to itself are no traffic.
      if (!factsOf(request).svcOwn) answered(owner, reply.raw.statusCode)
      done()
    })
  }
  guardSource(app, options)
  allowCors(app, options)
  // Registered as a plugin so that the hook runs after the CORS hook.
  void app.register(fp(async (scope) => { identify(scope, options) }))
}

function guardSource (app: FastifyInstance, options: TableOptions): void {
  const { begins } = options.front
  // Uses a callback, since one promise per hook and request costs more than all the checks.
  app.addHook('onRequest', (request, reply, done) => {
    const { headers, raw: { socket } } = request
    reply.header('x-svc-request-id', request.id).header('x-request-id', request.id)
    const { idHeader } = request.routeOptions.config as ErrorFormat
    if (idHeader !== undefined) reply.header(idHeader, request.id)
    const member = memberOf(socket)
    const own = member === undefined ? options.own?.callerOf(request, reply.raw) : undefined
    factsOf(request).svcOwn = own !== undefined
    const asker = member === undefined ? own : options.vouchedBy(member, readCaller(headers[CALLER_HEADER]))
    if (asker !== undefined) {
      factsOf(request).svcCaller = asker
      done()
      return
    }
    const served = options.served()
    closeUnupgraded(request, reply)
    begins(request.raw, reply.raw)
    reply.raw.on('timeout', endStalled)
    // Only the authenticated device can have sent a relayed request, so host and origin do not matter.
    if (relayedDevice(socket) !== undefined) { done(); return }
    const host = hostOf(request)
    if (host === undefined) throw invalid([{ path: '', message: 'has no Host header' }], 'request')
    if (!hostAllowed(host, served)) {
      throw kernelError('misdirected', `The Host "${printable(host)}" is not served here; ` +
        'use the address that the node prints, or list the name under api.allowed_hosts.')
    }
    const hints = {
      origin: headers.origin, site: header(headers['sec-fetch-site']),
      mode: header(headers['sec-fetch-mode'])
    }
    if (foreignPage(hints, request.method, served)) {
      const page = hints.origin === undefined ? null : options.pageOf?.(hints.origin) ?? null
      if (page === null) throw kernelError('foreign_origin')
      if (page === 'elsewhere') factsOf(request).svcPageElsewhere = true
    }
    done()
  })
}

function identify (app: FastifyInstance, options: TableOptions): void {
  const { limiter } = options.front
  const isProxy = proxyList(options.trustProxy)
  app.addHook('onRequest', (request, _reply, done) => {
    const facts = factsOf(request)
    if (facts.svcCaller !== null) {
      done()
      return
    }
    const { socket } = request.raw
    const proxied = isProxy(socket.remoteAddress ?? '')
    const indirect = facts.svcPageElsewhere || proxied
    const authorization = credentialOf(request)
    const device = relayedDevice(socket) ?? null
    // A trusted proxy may terminate TLS, so the protocol that it reports decides.
    const clear = device === null &&
      (proxied ? header(request.headers['x-forwarded-proto']) === 'http' : isUnencrypted(socket))
    const { caller, bodySha256 } = options.authenticate({
      remoteAddress: remoteOf(request), authorization, indirect, method: request.method,
      target: targetOf(request), route: request.routeOptions.url, inClear: clear, device, connection: socket
    })
    if (bodySha256 !== undefined) expectBody(request, bodySha256)
    facts.svcEntered = caller.id !== 'local' && caller.id !== 'anonymous'
    if (clear && !proxied && isToken(authorization)) options.tokenInClear?.(caller, socket)
    limitStall(socket, options.limits.streamStallMs, caller.id === 'anonymous')
    if (caller.id === 'anonymous') refuseCrowd(limiter, socket, options.limits)
    else limiter.authenticated(socket)
    facts.svcCaller = caller
    done()
  })
}

/** Refuses requests without a credential from an address that holds too many connections. */
function refuseCrowd (
  limiter: ConnectionLimiter, socket: Socket, { connectionsPerAddress }: HttpLimits
): void {
  const held = limiter.held(socket)
  if (held <= connectionsPerAddress) return
  throw kernelError('overloaded',
    `${held} connections are open from this address without a credential; ` +
    `the limit is ${connectionsPerAddress}.`, { retryAfterSeconds: 5 })
}

/** Called when a connection has been idle for `streamStallMs`; closes it if it has unread bytes. */
function endStalled (this: ServerResponse): void {
  if ((this.socket?.writableLength ?? 0) > 0) this.socket!.destroy()
}

const BY_CODE: Readonly<Record<string, KernelReason>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_MAX_PARAM_LENGTH: 'uri_too_long',
  FST_ERR_MAX_LIMIT_OVERRIDE: 'uri_too_long'
}

/** Converts Fastify's errors to SvcError; an unknown one becomes `internal` without its message. */
function fromFastify (error: FastifyError | Error): SvcError {
  if (error instanceof SvcError) return error
  const { code } = error as FastifyError
  if (code === 'FST_ERR_BAD_URL') return invalid([{ path: '', message: 'is not a valid path' }], 'url')
  return kernelError(BY_CODE[code] ?? 'internal')
}

export function sendError (
  reply: FastifyReply, error: SvcError, requestId: string,
  { failure, idHeader }: ErrorFormat = reply.request.routeOptions.config as ErrorFormat
): void {
  if (reply.sent) return
  const body = errorBody(error, requestId)
  void reply.code(error.status)
    .headers({
      'cache-control': 'no-store', 'x-svc-request-id': requestId, 'x-request-id': requestId,
      ...idHeader === undefined ? {} : { [idHeader]: requestId }, ...errorHeaders(error)
    })
    .type('application/json; charset=utf-8')
    .send(JSON.stringify(failure?.(body, reply.request.headers) ?? body))
}

const pathOf = ({ url }: FastifyRequest): string => url.split('?')[0]!

function notFound (options: TableOptions, request: FastifyRequest): SvcError {
  const path = pathOf(request)
  const others = options.methodsAt(path)
  if (others.length > 0) {
    const error = kernelError('method_not_allowed',
      `${request.method} is not supported here; ${others.join(', ')} is.`)
    error.headers['allow'] = others.join(', ')
    return error
  }
  return kernelError('not_found',
    `There is no route ${request.method} ${printable(path)}; GET /openapi.json lists all.`)
}

interface PageSources {
  served: () => ServedNames
  /** Whether the member that serves an origin runs on this machine; null if no member serves it. */
  pageOf?: (origin: string) => PageOf | null
}

/** Response headers that pages may read, in addition to those that browsers always expose. */
const READ = [
  'x-svc-request-id', 'x-request-id', 'request-id', 'x-svc-command-id', 'x-svc-task-id', 'x-svc-model',
  'x-svc-voice', 'x-svc-retried', 'x-svc-media-types', 'x-svc-transfers', 'x-svc-store-delete',
  'x-svc-warning', 'x-svc-ignored', 'content-disposition', 'etag', 'retry-after', 'mcp-session-id'
]

/** CORS: only pages from `api.allowed_origins` and from members may read answers. */
function allowCors (app: FastifyInstance, { served, pageOf = () => null }: PageSources): void {
  const mayRead = (origin: string): boolean =>
    served().allowedOrigins.includes(origin) || pageOf(origin) !== null
  void app.register(cors, {
    origin: (origin, answer) => { answer(null, origin !== undefined && mayRead(origin)) },
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    // Allows any request header, since SDKs send their own and none grants anything without a token.
    credentials: false,
    maxAge: 600,
    exposedHeaders: READ
  })
}
