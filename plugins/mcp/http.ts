import { randomUUID } from 'node:crypto'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { schemaChecker } from '../../kernel/api/validate.js'
import { kernelError, Reply, SvcError } from '../../kernel/index.js'
import { MediaCache } from './media.js'
import { ownApi } from './own.js'
import { createToolAdmission, createServer } from './server.js'
import type { McpRequestContext } from '@modelcontextprotocol/server'
import type { Caller, Clock, Declarations, Logger, LocalApi, RouteRequest } from '../../kernel/index.js'
import type { Shared } from './server.js'

/** Limit on open subscription streams, which stay silent because svc sends no notifications on them. */
const SUBSCRIPTIONS = 16
/** Number of ended sessions to remember, so that their requests are refused. */
const ENDED = 1000
const SESSION = 'mcp-session-id'
const EVENTS = 'text/event-stream'
/** MCP headers, passed on because the MCP library compares them with the body. */
const PASSED = ['accept', 'content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name', SESSION] as const

export interface EndpointParts {
  readonly api: LocalApi
  readonly declarations: Declarations
  readonly clock: Clock
  readonly log: Logger
  readonly version: string
}

interface Message { id?: unknown, method?: unknown, params?: { requestId?: unknown } }

/**
 * The handlers of the route /mcp. A new server serves every request, so a node stores nothing about its
 * clients and any node can answer. A session is only a label on its open requests, for cancellation.
 */
export function createEndpoint ({ api, declarations, clock, log, version }: EndpointParts) {
  const shared: Shared = {
    clock, version, media: new MediaCache(clock), toolAdmission: createToolAdmission(clock),
    checker: schemaChecker, manifests: () => declarations.manifests, declared: () => declarations.whole()
  }
  const handler = createMcpHandler(({ authInfo }: McpRequestContext) => {
    const caller = authInfo!.extra!['caller'] as Caller
    return createServer(shared, {
      id: caller.id, invokes: caller.authorities.has('invoke'), api: (signal) => ownApi(api, caller, signal)
    }, false)
  }, {
    maxSubscriptions: SUBSCRIPTIONS,
    onerror: (err) => { log.debug({ err }, 'an MCP message failed') }
  })
  const sessions = new Sessions()
  return {
    async message (request: RouteRequest): Promise<unknown> {
      const { caller, headers } = request
      const message = request.body as Message
      const session = sessions.check(caller, headers[SESSION])
      if (message.method === 'notifications/cancelled') sessions.cancel(session, message.params?.requestId)
      const tracked = sessions.begin(session, message.id)
      try {
        const signal = AbortSignal.any([request.signal, tracked.signal])
        const answer = await handler.fetch(toFetchRequest(request, signal), {
          parsedBody: request.body,
          authInfo: { token: '', clientId: caller.id, scopes: [], extra: { caller } }
        })
        const named = message.method === 'initialize' && answer.ok ? { [SESSION]: randomUUID() } : {}
        return await sendAnswer(request, answer, signal, named)
      } finally {
        tracked.end()
      }
    },
    end ({ caller, headers }: RouteRequest) {
      sessions.finish(sessions.check(caller, headers[SESSION]))
      return {}
    }
  }
}

/** Converts a request to the MCP library's type, without the body, which is passed separately. */
function toFetchRequest ({ headers }: RouteRequest, signal: AbortSignal): Request {
  const given = PASSED.flatMap((name) => headers[name] === undefined ? [] : [[name, headers[name]]])
  return new Request('http://node/mcp', { method: 'POST', headers: Object.fromEntries(given), signal })
}

const refusal = (status: number, message: string): SvcError =>
  new SvcError('invalid_request', { status, retryable: false, message, remedy: 'Fix the MCP message.' })

/** Sends the MCP library's response, either complete or as a stream. */
async function sendAnswer (
  request: RouteRequest, answer: Response, signal: AbortSignal, more: Record<string, string>
): Promise<Reply | undefined> {
  const contentType = answer.headers.get('content-type') ?? 'application/json'
  if (!contentType.startsWith(EVENTS) || answer.body === null) {
    const text = await answer.text()
    if (text === '') return new Reply('', answer.status, { 'content-type': contentType })
    const body = JSON.parse(text) as { error?: { message: string } }
    // Convert errors from the MCP library to svc's error format.
    if (!answer.ok && body.error !== undefined) throw refusal(answer.status, body.error.message)
    return new Reply(body, answer.status, more)
  }
  const stream = request.open({ contentType, status: answer.status, headers: more })
  try {
    for await (const bytes of answer.body) await stream.write(bytes as Uint8Array)
  } catch (error) {
    // A cancelled request has no answer, so end its stream.
    if (!signal.aborted || request.signal.aborted) throw error
  }
  return undefined
}

/** Key of a session: caller id and session label; null for a request without a session. */
type SessionKey = string | null

/** Open requests by session, and the newest ended sessions. */
class Sessions {
  readonly #open = new Map<string, Map<unknown, AbortController>>()
  readonly #ended = new Set<string>()

  /** Throws `not_found` for an ended session, so that the client starts a new one. */
  check (caller: Caller, label: string | undefined): SessionKey {
    if (label === undefined) return null
    const key = `${caller.id} ${label}`
    if (this.#ended.has(key)) throw kernelError('not_found', 'The MCP session has ended; start another.')
    return key
  }

  begin (session: SessionKey, id: unknown): { signal: AbortSignal, end: () => void } {
    const controller = new AbortController()
    if (session === null || id === undefined) return { signal: controller.signal, end: () => {} }
    const requests = this.#open.get(session) ?? new Map<unknown, AbortController>()
    this.#open.set(session, requests.set(id, controller))
    return {
      signal: controller.signal,
      end: () => {
        if (requests.get(id) === controller) requests.delete(id)
        if (requests.size === 0) this.#open.delete(session)
      }
    }
  }

  cancel (session: SessionKey, id: unknown): void {
    if (session !== null) this.#open.get(session)?.get(id)?.abort()
  }

  finish (session: SessionKey): void {
    if (session === null) return
    for (const controller of [...this.#open.get(session)?.values() ?? []]) controller.abort()
    this.#ended.add(session)
    if (this.#ended.size > ENDED) this.#ended.delete(this.#ended.values().next().value!)
  }
}
