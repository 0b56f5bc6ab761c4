import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { Reply } from '../api/plugin.js'
import { kernelError, SvcError, toSvcError } from '../api/errors.js'
import { schemaChecker } from '../api/validate.js'
import { remoteOf } from './arrival.js'
import { LAST_WORDS_MS } from './credential-watch.js'
import { encodedHeaders, errorBody } from './error-body.js'
import { jsonText } from './json.js'
import { memberOf } from './forwarded.js'
import { callerOf, factsOf, sendError } from './server.js'
import { clientHalfClosed, HALF_CLOSED } from './sockets.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Audit } from '../api/audit.js'
import type { Clock } from '../api/clock.js'
import type { Caller, Logger, RouteDecl, RouteRequest, StreamHead, StreamWriter } from '../api/plugin.js'
import type { Tracers } from '../observe/tracer.js'
import type { CredentialWatch } from './credential-watch.js'
import type { HttpLimits } from './limits.js'
import type { OpenRequest, OpenRequests, StreamCount } from './open-requests.js'

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
  /** True while the node drains and so refuses new work. */
  draining: () => boolean
  work: OpenRequests
  /** Ends open requests when their credential becomes invalid. */
  credentials: CredentialWatch
  streams: StreamCount
  /** Whether requests are traced, in which case arrival times must be recorded. */
  tracers?: Pick<Tracers, 'on'>
  /** Called with the route's plugin for every streamed answer that client or server cut off. */
  cut?: (owner: string) => void
  audit?: () => Audit | undefined
  /** Tests only: throws for an answer that differs from its route's declaration. */
  strict?: boolean
}

/** Time limit in ms for a reader to receive the end of its stream. */
const TELL_MS = 2000

/** Time limit in ms for a client to end its body after the answer. */
const LINGER_MS = 2000

/**
 * One request as its handler sees it, and its answer. A class, and synchronous if the handler is: closures
 * and promises per request would cost more than most handlers.
 */
export class RequestContext implements RouteRequest, OpenRequest {
  readonly params: RouteRequest['params']
  readonly query: RouteRequest['query']
  readonly body: RouteRequest['body']
  readonly upload: RouteRequest['upload']
  readonly headers: RouteRequest['headers']
  readonly caller: Caller
  readonly requestId: string
  readonly remoteAddress: string
  readonly member: string | null
  readonly arrivedMs: number | undefined
  noted: Readonly<Record<string, unknown>> = {}
  readonly #route: MountedRoute
  readonly #options: MountOptions
  readonly #reply: FastifyReply
  #controller: AbortController | undefined
  #reason: SvcError | undefined
  #unwatch: (() => void) | undefined
  /** The answer's stream, once the handler has opened one. */
  #stream: StreamWriter | undefined
  #events = false
  #reject: ((error: SvcError) => void) | undefined

  constructor (route: MountedRoute, request: FastifyRequest, reply: FastifyReply, options: MountOptions) {
    this.params = request.params
    this.query = request.query
    const { body } = request
    const streams = body instanceof Readable
    this.body = streams ? undefined : body
    // Destroying the body would destroy the connection, so a handler that stops reading leaves it open.
    this.upload = streams ? body.iterator({ destroyOnReturn: false }) : null
    if (streams) endUpload(body, reply.raw, options.clock)
    this.headers = request.headers as RouteRequest['headers']
    this.caller = callerOf(request)
    this.requestId = request.id
    this.remoteAddress = remoteOf(request)
    this.member = memberOf(request.raw.socket) ?? null
    this.arrivedMs = factsOf(request).svcArrivedMs
    this.#route = route
    this.#options = options
    this.#reply = reply
  }

  /**
   * Aborts if the client leaves, the deadline passes, the credential ends, or the plugin or the node stops.
   * Created on first use, since most handlers never need it.
   */
  get signal (): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      this.#watchClient()
      this.#watchCredential()
      if (this.#reason !== undefined) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  note (detail: Readonly<Record<string, unknown>>): void { this.noted = { ...this.noted, ...detail } }

  open (head: StreamHead): StreamWriter {
    const { clock, limits, streams, cut } = this.#options
    const { raw } = this.#reply
    // The socket has already closed, so no `close` event would remove the stream from the count.
    if (raw.destroyed || clientHalfClosed(raw)) throw kernelError('cancelled', 'The client disconnected.')
    const release = streams.open(this.caller)
    this.#reply.hijack()
    // Streams have their own limit for stalled readers, which replaces the socket's timeout.
    raw.removeAllListeners('timeout').on('timeout', () => {})
    this.#watchCredential()
    raw.once('close', () => {
      this.#unwatch?.()
      release()
      if (!raw.writableEnded) cut?.(this.#route.owner)
    })
    const headers = { ...this.#reply.getHeaders() as Record<string, string>, ...head.headers }
    const stallMs = head.stallMs ?? limits.streamStallMs
    this.#events = head.contentType.startsWith('text/event-stream')
    this.#stream = openStream(raw, { ...head, headers }, { clock, stallMs, onClose: release })
    if (this.#reply.request.method === 'HEAD') {
      void this.#stream.end()
      this.abort(kernelError('cancelled', 'An answer to HEAD has no body.'))
    }
    return this.#stream
  }

  /** Runs the handler and answers; resolves when an asynchronous handler has been answered. */
  serve (): Promise<void> | undefined {
    try {
      // The plugin may have stopped before the request's body arrived.
      const { ending } = this.#options.work
      if (ending !== undefined) throw ending
      const result = this.#route.handler(this)
      if (isThenable(result) || this.#stream !== undefined) return this.#settle(Promise.resolve(result))
      sendResult(this.#route, this.#reply, result, this.#options)
    } catch (error) {
      this.#fail(error)
    }
    this.#unwatch?.()
    return undefined
  }

  abort (error: SvcError): void {
    this.#reason ??= error
    this.#controller?.abort(error)
  }

  abandon (error: SvcError): void {
    this.abort(error)
    this.#reject?.(error)
  }

  #watchClient (): void {
    const { raw } = this.#reply
    const onClose = (): void => {
      if (!raw.writableFinished) this.abort(kernelError('cancelled', 'The client disconnected.'))
    }
    const onHalfClosed = (): void => {
      this.abort(kernelError('cancelled', 'The client closed its side of the connection before the answer.'))
    }
    if (clientHalfClosed(raw)) onHalfClosed()
    else if (raw.destroyed) onClose()
    else raw.once(HALF_CLOSED, onHalfClosed).once('close', onClose)
  }

  /** Aborts the request once its credential is invalid, and cuts its stream soon after. */
  #watchCredential (): void {
    const { clock, credentials } = this.#options
    if (!factsOf(this.#reply.request).svcEntered) return
    this.#unwatch ??= credentials.watch(this.caller.id, (why) => {
      this.#unwatch = undefined
      this.abort(why)
      clock.after(LAST_WORDS_MS, () => { this.#stream?.cut() })
    })
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
      this.#unwatch?.()
      work.leave(this)
    }
  }

  /** Awaits the handler, with a time limit unless it may stream; `abandon` ends the wait early. */
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

  /** Ends a stream. Followers reconnect after a clean end, so an error event marks an end that is final. */
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

/** After the answer, drops the rest of the body, so that its sender can still read the answer. */
function endUpload (body: Readable, answer: FastifyReply['raw'], clock: Clock): void {
  answer.once('finish', () => {
    if (body.readableEnded) return
    body.removeAllListeners('readable').resume()
    body.once('close', clock.after(LINGER_MS, () => { body.destroy() }))
  })
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
  // An answer with `cache-control` or `etag` may be cached; all others must not be stored.
  const keeps = reply.hasHeader('cache-control') || reply.hasHeader('etag')
  if (!keeps) void reply.header('cache-control', 'no-store')
  // Fastify would send the length of the missing body instead of that of the cached answer.
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

/** Bytes per write; small, so that a slow reader shows progress within the stall limit. */
const PIECE_BYTES = 16 * 1024

async function inPieces (
  data: Uint8Array | string, write: (piece: Uint8Array) => Promise<void> | undefined
): Promise<void> {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) await write(bytes.subarray(at, at + PIECE_BYTES))
}

/**
 * Writes a stream with backpressure: a write resolves once the socket can take more. Rejects with
 * `slow_consumer` if the reader stalls for `stallMs`, `cancelled` if the reader has left.
 */
export function openStream (
  raw: ServerResponse, head: StreamHead, options: { clock: Clock, stallMs: number, onClose: () => void }
): StreamWriter {
  raw.writeHead(head.status ?? 200, {
    'content-type': head.contentType, 'cache-control': 'no-store', 'x-accel-buffering': 'no',
    ...encodedHeaders(head.headers ?? {})
  })
  raw.flushHeaders()
  let ended = false
  const gone = (): boolean => raw.destroyed || raw.writableEnded
  return {
    write (bytes) {
      if (ended || gone()) return Promise.reject(kernelError('cancelled', 'The client disconnected.'))
      if (bytes.length > PIECE_BYTES) return inPieces(bytes, (piece) => this.write(piece))
      return bytes.length === 0 || raw.write(bytes) ? undefined : drained(raw, options)
    },
    async end () {
      if (ended || gone()) return
      ended = true
      await new Promise<void>((resolve) => { raw.once('close', resolve); raw.end('', 'utf8', resolve) })
      options.onClose()
    },
    cut () {
      ended = true
      raw.destroy()
      options.onClose()
    },
    get closed () { return ended || gone() }
  }
}

function drained (raw: ServerResponse, options: { clock: Clock, stallMs: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (settle: () => void): void => {
      stop()
      raw.off('drain', onDrain)
      raw.off('close', onClose)
      settle()
    }
    const onDrain = (): void => { finish(resolve) }
    const onClose = (): void => {
      finish(() => { reject(kernelError('cancelled', 'The client disconnected.')) })
    }
    const stop = options.clock.after(options.stallMs, () => {
      finish(() => {
        reject(kernelError('slow_consumer', `The client read no data for ${options.stallMs / 1000} seconds.`))
      })
    })
    raw.on('drain', onDrain)
    raw.on('close', onClose)
  })
}
