import type { FastifyInstance } from 'fastify'
import { kernelError } from '../api/errors.js'
import { authorize } from '../http/access.js'
import { methodFinder, mount } from '../http/mount.js'
import { memberOf } from '../http/member-socket.js'
import { modelPaths } from '../http/model-path.js'
import { callerOf } from '../http/server.js'
import { socketScope } from '../http/sockets.js'
import { stateSyncRoute } from '../state/sync.js'
import { clusterRoutes } from '../cluster/routes.js'
import { systemRoutes } from '../http/system-routes.js'
import { schemaChecker } from '../api/validate.js'
import type { Assembly } from '../boot/assembly.js'
import type { WebSocket } from 'ws'
import type { Caller, RouteDecl } from '../api/plugin.js'
import type { MountedRoute, MountOptions, StreamCount } from '../http/mount.js'
import type { KernelOptions, Parts } from './kernel.js'
import type { clusterHandlers } from '../cluster/routes.js'
import type { StateSync } from '../state/sync.js'
import type { systemHandlers } from '../http/system-routes.js'

type Handlers = ReturnType<typeof systemHandlers> & ReturnType<typeof clusterHandlers>
type Session = (socket: WebSocket, caller: Caller) => void

/** What a streamed answer that was cut off counts as: its own status went out before that. */
const CUT_STATUS = 499

/** Puts every route on the server: the plugins' (already in `parts`), the kernel's own, the disabled ones. */
export function mountAll (
  kernel: Assembly, parts: Parts, options: KernelOptions, handlers: Handlers, sync: StateSync
): void {
  const { routes } = parts
  for (const [name, decl] of Object.entries({ ...systemRoutes, ...clusterRoutes })) {
    const handler = handlers[name as keyof Handlers] as MountedRoute['handler']
    routes.push({ owner: 'kernel', name, decl, handler })
  }
  const sockets: { name: string, decl: RouteDecl, serve: Session }[] = [
    { name: 'stateSync', decl: stateSyncRoute, serve: sync.serve }
  ]
  for (const { name, decl, handler } of kernel.capabilities.routes()) {
    if (handler === null) sockets.push({ name, decl, serve: kernel.capabilities.session })
    else routes.push({ owner: 'kernel', name, decl, handler })
  }
  const taken = new Set(routes.map(({ decl }) => `${decl.method} ${decl.url}`))
  routes.push(...disabledRoutes(options).filter(({ decl }) => !taken.has(`${decl.method} ${decl.url}`)))
  const mounting: MountOptions = {
    clock: options.clock, log: kernel.log, limits: options.limits,
    draining: () => kernel.drain.on, stopping: kernel.stopping.signal, tracers: kernel.tracers,
    cut: (owner) => { kernel.traffic.answered(owner, CUT_STATUS) },
    ...(options.strict ? { checkReply } : {})
  }
  for (const route of routes) mount(parts.app, route, mounting, parts.streams)
  socketScope(parts.app, (scope) => {
    for (const { decl, serve } of sockets) mountSocket(kernel, scope, decl, serve, parts.streams)
  })
  for (const { name, decl } of sockets) routes.push({ owner: 'kernel', name, decl, handler: noUpgrade })
  const decls = routes.map((r) => r.decl)
  kernel.methodsAt = methodFinder(decls)
  kernel.rewrite = modelPaths(decls)
}

/** A WebSocket: same guards as every route, then the socket is handed over. */
function mountSocket (
  kernel: Assembly, app: FastifyInstance, decl: RouteDecl, serve: Session, streams: StreamCount
): void {
  app.route({
    method: 'GET',
    url: decl.url,
    onRequest: async (request) => {
      if (kernel.drain.on) throw kernelError('shutting_down')
      authorize(callerOf(request), decl, memberOf(request.raw.socket))
      // An open session is an open stream; refused here, the answer is still an ordinary one.
      if (request.ws) request.raw.socket.once('close', streams.open(callerOf(request)))
    },
    handler: noUpgrade,
    wsHandler: (socket, request) => { serve(socket, callerOf(request)) }
  })
}

function noUpgrade (): never {
  throw kernelError('not_found', 'This path is a WebSocket; a plain request finds nothing here.')
}

/** Routes of plugins that are off answer with the line that brings them back. */
function disabledRoutes (options: KernelOptions): MountedRoute[] {
  return options.off.flatMap(({ plugin: { manifest }, message }) =>
    Object.entries(manifest.routes ?? {}).map(([name, route]) => ({
      owner: manifest.name,
      name,
      decl: withoutSchemas(route),
      handler: () => { throw kernelError('plugin_disabled', message, { plugin: manifest.name }) }
    })))
}

/** Any query and body will do: the answer is the same. */
function withoutSchemas ({ method, url, summary, authority, members = false, params }: RouteDecl): RouteDecl {
  return {
    method, url, summary, authority, members, query: { type: 'object' },
    ...(params === undefined ? {} : { params }),
    ...(method === 'POST' || method === 'PUT' ? { body: {} } : {})
  }
}

/** Tests only: an answer that is not as declared is a defect. */
function checkReply ({ decl }: MountedRoute, body: unknown): void {
  if (decl.reply === undefined) return
  const problem = schemaChecker(decl.reply)(JSON.parse(JSON.stringify(body ?? null)))
  if (problem !== null) throw new Error(`the answer of ${decl.method} ${decl.url}: ${problem}`)
}
