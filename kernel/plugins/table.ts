import { AuditService, type Audit } from '../api/audit.js'
import { kernelError } from '../api/errors.js'
import { modelPaths } from '../http/model-path.js'
import { mount, mountSocket } from '../http/mount.js'
import { createTable, type TableOptions } from '../http/server.js'
import { socketScope } from '../http/sockets.js'
import { errorFormatFinder, methodFinder } from '../http/unmatched.js'
import type { FastifyInstance } from 'fastify'
import type { RouteDecl } from '../api/plugin.js'
import type { HttpListener } from '../http/http-listener.js'
import type { MountedRoute, MountOptions } from '../http/request-context.js'
import type { OpenRequests } from '../http/open-requests.js'
import type { LocalRequests } from '../http/local-api.js'
import type { Assembly } from './assembly.js'

export interface TableParts {
  readonly kernel: Assembly
  readonly front: HttpListener
  readonly own: LocalRequests
  readonly authenticate: TableOptions['authenticate']
  readonly tokenInClear: NonNullable<TableOptions['tokenInClear']>
  readonly routes: readonly MountedRoute[]
}

/**
 * Builds a route table from the routes of the kernel and all plugins and sends new requests to it; the
 * previous table finishes its requests. Throws for duplicate routes.
 */
export async function showRoutes (parts: TableParts): Promise<void> {
  const { kernel, front } = parts
  const { started, work } = kernel
  const groups: [OpenRequests, readonly MountedRoute[]][] = [
    [work, [...parts.routes, ...disabledRoutes(parts)]],
    ...started.map((running) => [running.work, running.routes] as [OpenRequests, readonly MountedRoute[]])
  ]
  const routes = groups.flatMap(([, group]) => group)
  const app = makeTable(parts, routes.map(({ decl }) => decl))
  const mountAll = (scope: FastifyInstance, sockets: boolean, put: typeof mount): void => {
    for (const [open, group] of groups) {
      const how = mountOptions(kernel, open)
      for (const route of group) {
        if ((route.decl.socket === true) === sockets) put(scope, route, how)
      }
    }
  }
  mountAll(app, false, mount)
  socketScope(app, (scope) => { mountAll(scope, true, mountSocket) })
  await app.ready()
  front.swap(app)
  kernel.routes.splice(0, kernel.routes.length, ...routes)
}

function makeTable (
  { kernel, front, own, authenticate, tokenInClear }: TableParts, decls: readonly RouteDecl[]
): FastifyInstance {
  const { options, log, traffic } = kernel
  return createTable({
    front, log, limits: options.limits, trustProxy: options.trustProxy, served: options.served,
    vouchedBy: (member, caller) => ({
      ...caller, authorities: new Set(options.cluster.vouched(member, caller.authorities))
    }),
    pageOf: (origin) => options.cluster.pageOf(origin), authenticate, tokenInClear, own,
    methodsAt: methodFinder(decls), errorFormatAt: errorFormatFinder(decls), rewrite: modelPaths(decls),
    answered: traffic.answered
  })
}

/** Status counted for a stream that was cut off after its response head had been sent. */
const CUT_STATUS = 499

function mountOptions (kernel: Assembly, work: OpenRequests): MountOptions {
  const { options, traffic, drain } = kernel
  return {
    clock: options.clock, log: kernel.log, limits: options.limits, strict: options.strict,
    draining: () => drain.on, work, credentials: kernel.credentials, streams: kernel.streams,
    tracers: kernel.tracers, cut: (owner) => { traffic.answered(owner, CUT_STATUS) },
    audit: () => kernel.services.get(AuditService.id) as Audit | undefined
  }
}

/** Routes of disabled plugins; each answers with the command that enables its plugin. */
function disabledRoutes ({ kernel: { present, started }, routes }: TableParts): MountedRoute[] {
  const at = ({ decl: { method, url, also = [] } }: MountedRoute): string[] =>
    [url, ...also].map((path) => `${method} ${path}`)
  const taken = new Set([...routes, ...started.flatMap((running) => running.routes)].flatMap(at))
  return present.off.flatMap(({ plugin: { manifest }, message }) => {
    // The message names the plugin to enable, which may be one that this one requires.
    const [command] = /`svc plugin enable [^`]+`/.exec(message) ?? []
    const remedy = command === undefined ? {} : { remedy: `Enable it: ${command}.` }
    const details = { plugin: manifest.name, ...remedy }
    return Object.entries(manifest.routes ?? {}).map(([name, route]) => ({
      owner: manifest.name, name, decl: withoutSchemas(route),
      handler: () => { throw kernelError('plugin_disabled', message, details) }
    }))
  }).filter((route) => !at(route).some((one) => taken.has(one)))
}

/** Query schema that all route tables share, so that it is compiled only once. */
const ANY_QUERY = { type: 'object' } as const
const ANY_BODY = {}

/** Makes a route accept any query and body, since its answer is always the same. */
function withoutSchemas (
  { method, url, also = [], summary, authority, members = false, params }: RouteDecl
): RouteDecl {
  return {
    method, url, also, summary, authority, members, audit: false, query: ANY_QUERY,
    ...(params === undefined ? {} : { params }),
    ...(method === 'POST' || method === 'PUT' ? { body: ANY_BODY } : {})
  }
}
