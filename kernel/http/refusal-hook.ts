import type { FastifyRequest, RouteShorthandOptions } from 'fastify'
import { toSvcError } from '../api/errors.js'
import { nameOf } from './audited.js'
import { remoteOf } from './arrival.js'
import { relayedDevice } from './callers.js'
import { memberOf } from './forwarded.js'
import { factsOf } from './server.js'
import type { Audit, Change } from '../api/audit.js'
import type { RouteDecl } from '../api/plugin.js'

/** Reports to the audit the requests that were refused before their handler ran. */
export function refusalHook (
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
    what: nameOf(decl),
    detail: { from }, parts: [['params', decl.params, request.params]]
  }
}
