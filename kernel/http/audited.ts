import { toSvcError } from '../api/errors.js'
import { Reply, type RouteDecl, type RouteRequest } from '../api/plugin.js'
import type { Audit } from '../api/audit.js'

/** Authorities that allow using the cluster but not changing it. */
const USES: ReadonlySet<string | null> = new Set([null, 'read', 'invoke'])

export function isAudited ({ method, authority, audit }: RouteDecl): boolean {
  return audit === undefined ? method !== 'GET' && !USES.has(authority) : audit !== false
}

interface NotedRequest extends RouteRequest { readonly noted: Readonly<Record<string, unknown>> }

/**
 * Wraps the handler of a route that changes something: the audit records the request before the handler
 * runs and the result before the answer. Forwarded requests are audited by the node that received them first.
 */
export function audited (
  { decl, handler }: { decl: RouteDecl, handler: (request: RouteRequest) => unknown },
  audit: () => Audit | undefined
): (request: NotedRequest) => unknown {
  return (request) => {
    const keeper = audit()
    if (keeper === undefined || request.member !== null) return handler(request)
    return recorded(decl, handler, keeper, request)
  }
}

async function recorded (
  decl: RouteDecl, handler: (request: RouteRequest) => unknown, audit: Audit, request: NotedRequest
): Promise<unknown> {
  const { caller: { id, mode }, params, query, body, requestId, signal } = request
  const end = await audit.begin({
    who: id, how: mode, what: nameOf(decl), detail: { request: requestId },
    parts: [['params', decl.params, params], ['query', decl.query, query], ['body', decl.body, body]],
    bestEffort: decl.audit === 'best-effort'
  })
  const ended = async (status: number, reason: string | null): Promise<void> => {
    await end({ status, reason, detail: request.noted })
  }
  try {
    // No change may happen once the client has left or got a deadline error.
    signal.throwIfAborted()
    const result = await handler(request)
    await ended(result instanceof Reply ? result.status : 200, null)
    return result
  } catch (error) {
    const { status, reason } = toSvcError(error)
    await ended(status, reason)
    throw error
  }
}

export const nameOf = ({ method, url }: RouteDecl): string => `${method} ${url}`
