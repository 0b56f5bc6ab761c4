import { randomUUID } from 'node:crypto'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { schemaChecker } from '../../kernel/api/validate.js'
import { kernelError, Reply, SvcError } from '../../kernel/index.js'
import { MediaCache } from './media.js'
import { ownApi } from './own.js'
import { createToolAdmission, createServer } from './server.js'
import type { McpRequestContext } from '@modelcontextprotocol/server'
import type {
  Caller, Clock, Declarations, Logger, LocalApi, RouteRequest
} from '../../kernel/index.js'
import type { Shared } from './server.js'

/** Streams of changes that are open at once; nothing is ever told there. */
const SUBSCRIPTIONS = 16
/** Sessions of which it is remembered that they ended. */
const ENDED = 1000
const SESSION = 'mcp-session-id'
const EVENTS = 'text/event-stream'
/** Headers of MCP, which the protocol compares with the body. */
const PASSED = ['accept', 'content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name', SESSION] as const

export interface EndpointParts {
  readonly api: LocalApi
  readonly declarations: Declarations
  readonly clock: Clock
  readonly log: Logger
  readonly version: string
}

/** The handlers of /mcp. */
export interface Endpoint {
  message (request: RouteRequest): Promise<unknown>
  end (request: RouteRequest): unknown
}

interface Message { id?: unknown, method?: unknown, params?: { requestId?: unknown } }

/**
 * Every request is served by a server of its own, so that a node keeps nothing of its clients, and any node
 * answers. A session is no more than a label on the requests that are under way: by it they are cancelled.
 */
export function createEndpoint ({ api, declarations, clock, log, version }: EndpointParts): Endpoint {
  const shared: Shared = {
    clock, version, media: new MediaCache(clock), looks: createToolAdmission(clock), checker: schemaChecker,
    manifests: () => declarations.manifests, declared: () => declarations.whole()
  }
  const handler = createMcpHandler(({ authInfo }: McpRequestContext) => {
    const caller = authInfo!.extra!['caller'] as Caller
    return createServer(shared, {
      id: caller.id, invokes: caller.authorities.has('invoke'), api: (signal) => ownApi(api, caller, signal)
    }, false)
  }, {
    maxSubscriptions: SUBSCRIPTIONS,
    onerror: (err) => { log.debug({ err }, 'a message of MCP could not be served') }
  })
  const open = new Sessions()
  return {
    async message (request) {
      const { caller, headers } = request
      const message = request.body as Message
      const session = open.check(caller, headers[SESSION])
      if (message.method === 'notifications/cancelled') open.cancel(session, message.params?.requestId)
      const under = open.begin(session, message.id)
      try {
        const signal = AbortSignal.any([request.signal, under.signal])
        const answer = await handler.fetch(asFetched(request, signal), {
          parsedBody: request.body,
          authInfo: { token: '', clientId: caller.id, scopes: [], extra: { caller } }
        })
        const named = message.method === 'initialize' && answer.ok ? { [SESSION]: randomUUID() } : {}
        return await passOn(request, answer, signal, named)
      } finally {
        under.end()
      }
    },
    end ({ caller, headers }) {
      open.finish(open.check(caller, headers[SESSION]))
      return {}
    }
  }
}

/** The request as the library takes it; its body has been read. */
function asFetched ({ headers }: RouteRequest, signal: AbortSignal): Request {
  const given = PASSED.flatMap((name) => headers[name] === undefined ? [] : [[name, headers[name]]])
  return new Request('http://node/mcp', { method: 'POST', headers: Object.fromEntries(given), signal })
}

const refusal = (status: number, message: string): SvcError =>
  new SvcError('invalid_request', { status, retryable: false, message, remedy: 'Mend the message.' })

/** Sends the library's answer: whole, or while it is made. */
async function passOn (
  request: RouteRequest, answer: Response, signal: AbortSignal, more: Record<string, string>
): Promise<Reply | undefined> {
  const contentType = answer.headers.get('content-type') ?? 'application/json'
  if (!contentType.startsWith(EVENTS) || answer.body === null) {
    const text = await answer.text()
    if (text === '') return new Reply('', answer.status, { 'content-type': contentType })
    const body = JSON.parse(text) as { error?: { message: string } }
    // The library's refusals in the words of all others.
    if (!answer.ok && body.error !== undefined) throw refusal(answer.status, body.error.message)
    return new Reply(body, answer.status, more)
  }
  const stream = request.open({ contentType, status: answer.status, headers: more })
  try {
    for await (const bytes of answer.body) await stream.write(bytes as Uint8Array)
  } catch (error) {
    // What was cancelled has no answer: its stream ends without one.
    if (!signal.aborted || request.signal.aborted) throw error
  }
  return undefined
}

/** A session by its label and whose it is; null for a request without one. */
type SessionKey = string | null

/** The requests that are under way, and the newest sessions that have ended. */
class Sessions {
  readonly #under = new Map<string, Map<unknown, AbortController>>()
  readonly #ended = new Set<string>()

  /** Throws `not_found` for a session that has ended: the client begins another. */
  check (caller: Caller, label: string | undefined): SessionKey {
    if (label === undefined) return null
    const key = `${caller.id} ${label}`
    if (this.#ended.has(key)) throw kernelError('not_found', 'The MCP session has ended; begin another.')
    return key
  }

  begin (session: SessionKey, id: unknown): { signal: AbortSignal, end: () => void } {
    const controller = new AbortController()
    if (session === null || id === undefined) return { signal: controller.signal, end: () => {} }
    const requests = this.#under.get(session) ?? new Map<unknown, AbortController>()
    this.#under.set(session, requests.set(id, controller))
    return {
      signal: controller.signal,
      end: () => {
        if (requests.get(id) === controller) requests.delete(id)
        if (requests.size === 0) this.#under.delete(session)
      }
    }
  }

  cancel (session: SessionKey, id: unknown): void {
    if (session !== null) this.#under.get(session)?.get(id)?.abort()
  }

  finish (session: SessionKey): void {
    if (session === null) return
    for (const controller of [...this.#under.get(session)?.values() ?? []]) controller.abort()
    this.#ended.add(session)
    if (this.#ended.size > ENDED) this.#ended.delete(this.#ended.values().next().value!)
  }
}
