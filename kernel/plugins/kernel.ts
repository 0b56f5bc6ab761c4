import fp from 'fastify-plugin'
import type { FastifyInstance } from 'fastify'
import { CallerService } from '../api/callers.js'
import { kernelError } from '../api/errors.js'
import { IdentityService } from '../api/identity.js'
import {
  BundleService, ClusterService, CommandService, ConfigService, DeclarationService, EventTapService,
  GossipService, InspectionService, InvocationService, ListenerService, MachineService, OwnApiService,
  SessionService,
  StateService, TokenService
} from '../api/services.js'
import { schemaChecker } from '../api/validate.js'
import { BootError } from '../api/errors.js'
import { TrafficService } from '../calls/traffic.js'
import { createBundle } from '../cards/bundle.js'
import { apisOf, pageOf } from '../cluster/members/pages.js'
import { clusterHandlers, clusterRoutes } from '../cluster/routes.js'
import { createStateSync, stateSyncRoute } from '../state/sync.js'
import { createAccess } from '../http/access.js'
import { modelPaths } from '../http/model-path.js'
import { MorePorts } from '../http/listeners.js'
import { methodFinder, mount, mountSocket, tellingFinder, withoutSchemas } from '../http/mount.js'
import { OwnRequests } from '../http/own-api.js'
import { createServer, START_LIMIT_MS } from '../http/server.js'
import { socketScope } from '../http/sockets.js'
import { systemHandlers, systemRoutes } from '../http/system-routes.js'
import { TracerService } from '../observe/tracer.js'
import { createStateSource, namedBy } from '../state/source.js'
import { assemble } from './assembly.js'
import { commandName, startOne } from './context.js'
import { parseNeed } from './graph.js'
import { kernelManifest } from './kernel-manifest.js'
import type { Manifest, Plugin, RouteDecl } from '../api/plugin.js'
import type { Declarations, EventTap, Inspection } from '../api/services.js'
import type { MountedRoute, MountOptions, SocketRoute } from '../http/mount.js'
import type { ServerOptions } from '../http/server.js'
import type { StateSource } from '../state/source.js'
import type { Assembly, KernelOptions } from './assembly.js'
import type { Contributed } from './context.js'

/** A booted kernel. */
export interface Kernel {
  readonly app: FastifyInstance
  readonly bus: Assembly['bus']
  readonly health: Assembly['health']
  readonly commands: Assembly['commands']
  readonly routes: readonly MountedRoute[]
  service (id: string): unknown
  /** Refuses new requests, gives open ones up to `graceMs`, ends them with one terminal, stops plugins. */
  close (graceMs: number): Promise<void>
}

/** An assembly with its server and the state that it tells. */
type Booting = Assembly & { readonly app: FastifyInstance, readonly state: StateSource }

/** What a streamed answer that was cut off counts as: its own status went out before that. */
const CUT_STATUS = 499
/** How often a closing node looks whether its open calls have ended, ms. */
const DRAIN_POLL_MS = 50

/**
 * Boots a kernel in stages: its own parts, the server, its routes, then the plugins in order. avvio starts
 * each plugin after the ones before it, ends one that takes too long, and closes all in reverse.
 * Throws BootError with every plugin that failed.
 */
export async function createKernel (options: KernelOptions): Promise<Kernel> {
  const parts = assemble(options)
  const { limits, tokens, local, clock } = options
  const own = new OwnRequests()
  const ports = new MorePorts()
  const app = createServer({
    clock, log: parts.log, limits, trustProxy: options.trustProxy, served: options.served,
    identity: options.tls, tokenInClear: warnOnce(parts),
    pageOf: (origin) => pageOf(origin, apisOf(options)), startLimitMs: options.startLimitMs,
    authenticate: createAccess({ tokens, schemes: parts.schemes, local, clock }), own, ports,
    methodsAt: (path) => parts.paths.methodsAt(path), tellingAt: (path) => parts.paths.tellingAt(path),
    rewrite: (method, url) => parts.paths.rewrite(method, url), answered: parts.traffic.answered
  })
  const kernel: Booting = { ...parts, app, state: createStateSource(parts) }
  addServices(kernel, own, ports)
  const problems: string[] = []
  try {
    mountOwn(kernel)
    queuePlugins(kernel, problems)
    await app.ready()
    if (problems.length > 0) throw new BootError(problems)
    const decls = kernel.routes.map(({ decl }) => decl)
    parts.paths.methodsAt = methodFinder(decls)
    parts.paths.tellingAt = tellingFinder(decls)
    parts.paths.rewrite = modelPaths(decls)
    kernel.bus.open()
    const quiet = kernel.state.publish()
    return {
      app, bus: kernel.bus, health: kernel.health, commands: kernel.commands, routes: kernel.routes,
      service: (id) => kernel.services.get(id),
      close: async (graceMs) => { await close(kernel, graceMs, quiet) }
    }
  } catch (error) {
    await app.close()
    throw error
  }
}

/** Tells of tokens that come in clear: the first one, since it will not be the only one. */
function warnOnce ({ health, log }: Assembly): NonNullable<ServerOptions['tokenInClear']> {
  let told = false
  return ({ id }, { remoteAddress }) => {
    if (told) return
    told = true
    const { meaning, remediation } = kernelManifest.conflicts.token_in_clear
    health.raise('token_in_clear', `It was ${id}.`)
    log.warn({ token: id, from: remoteAddress }, `${meaning} ${remediation}`)
  }
}

/** The kernel's own services; one from outside (a test's fake) stands in for its own. */
function addServices (kernel: Booting, own: OwnRequests, ports: MorePorts): void {
  const { options, bus, capabilities, services } = kernel
  const { cluster } = options
  const tap: EventTap = {
    kinds: () => bus.durableKinds(),
    onDurable: (fn) => bus.on('*', ({ plane, kind, payload }) => {
      if (plane === 'durable') fn({ kind, payload })
    })
  }
  const all: [{ id: string }, unknown][] = [
    [BundleService, createBundle(kernel.manifests)], [CommandService, kernel.commands],
    [InvocationService, capabilities.invocations], [SessionService, cluster.session],
    [ClusterService, cluster.service], [EventTapService, tap], [GossipService, options.gossip],
    [TokenService, options.tokens], [TracerService, kernel.tracers], [TrafficService, kernel.traffic],
    [InspectionService, inspectionOf(kernel)], [StateService, kernel.state.reader],
    [MachineService, options.machine], [OwnApiService, own.of(kernel.app)],
    [ListenerService, ports.of(kernel.app, options.host ?? (() => '127.0.0.1'))],
    [ConfigService, kernel.config], [CallerService, kernel.schemes],
    [IdentityService, options.identity],
    [DeclarationService, declarationsOf(kernel.manifests)]
  ]
  for (const [{ id }, service] of all) services.set(id, service)
  for (const [id, service] of options.services) services.set(id, service)
}

function declarationsOf (plugins: readonly Manifest[]): Declarations {
  return {
    manifests: [kernelManifest, ...plugins],
    whole: async () => (await import('../cli/declared.js')).declaredBy(plugins)
  }
}

/** What diagnostics may ask of the kernel. */
function inspectionOf ({ options, config, started, commands, streams }: Booting): Inspection {
  return {
    plugins: () => started.map(({ plugin: { manifest: { name, version, summary } }, effects }) =>
      ({ name, version, summary, effects: effects() })),
    warnings: () => [...options.warnings],
    url: options.url,
    openCommands: () => commands.open,
    openStreams: () => streams.total,
    dials: () => options.network.dials(),
    links: () => options.network.links(),
    config: () => {
      const { file, entries } = config.read()
      return { file, entries }
    }
  }
}

/** Mounts the kernel's routes and WebSockets, and those of plugins that are off. */
function mountOwn (kernel: Booting): void {
  const { app, options, capabilities, state, changes } = kernel
  const sync = createStateSync({
    state: state.known, read: state.reader.read, changed: changes.next,
    readings: namedBy(kernel, 'stateReadings'),
    clock: options.clock, log: kernel.log
  })
  app.addHook('preClose', async () => { sync.close() })
  const handlers: Record<string, unknown> = { ...systemHandlers(kernel), ...clusterHandlers(options) }
  const own = Object.entries<RouteDecl>({ ...systemRoutes, ...clusterRoutes }).map(([name, decl]) =>
    ({ owner: 'kernel', name, decl, handler: handlers[name] as MountedRoute['handler'] }))
  const sockets: SocketRoute[] = [{ name: 'stateSync', decl: stateSyncRoute, serve: sync.serve }]
  for (const { name, decl, handler } of capabilities.routes()) {
    if (handler === null) sockets.push({ name, decl, serve: capabilities.session })
    else own.push({ owner: 'kernel', name, decl, handler })
  }
  const at = ({ method, url }: RouteDecl): string => `${method} ${url}`
  const taken = new Set([
    ...own.map(({ decl }) => decl), ...kernel.manifests.flatMap((m) => Object.values(m.routes ?? {}))
  ].map(at))
  const disabled = disabledRoutes(options).filter(({ decl }) => !taken.has(at(decl)))
  for (const route of [...own, ...disabled]) mountRoute(kernel, app, route)
  socketScope(app, (scope) => {
    for (const socket of sockets) {
      const how = { clock: options.clock, draining: () => kernel.drain.on, standing: kernel.standing }
      kernel.routes.push(mountSocket(scope, socket, how, kernel.streams))
    }
  })
}

/** Routes of plugins that are off answer with the line that brings them back. */
function disabledRoutes ({ off }: KernelOptions): MountedRoute[] {
  return off.flatMap(({ plugin: { manifest }, message }) =>
    Object.entries(manifest.routes ?? {}).map(([name, route]) => ({
      owner: manifest.name,
      name,
      decl: withoutSchemas(route),
      handler: () => { throw kernelError('plugin_disabled', message, { plugin: manifest.name }) }
    })))
}

function mountRoute (kernel: Booting, scope: FastifyInstance, route: MountedRoute): void {
  const { options, traffic, drain, stopping } = kernel
  const how: MountOptions = {
    clock: options.clock, log: kernel.log, limits: options.limits, strict: options.strict,
    draining: () => drain.on, stopping: stopping.signal, standing: kernel.standing, tracers: kernel.tracers,
    cut: (owner) => { traffic.answered(owner, CUT_STATUS) }
  }
  kernel.routes.push(route)
  mount(scope, route, how, kernel.streams)
}

/**
 * Gives the plugins to avvio in their order: each starts in its own fastify instance, and its routes are
 * mounted there. After a failure, told in `problems`, those that do not need the failed plugin still start.
 */
function queuePlugins (kernel: Booting, problems: string[]): void {
  const { app, options } = kernel
  const failed = new Set<string>()
  const present = new Set(kernel.manifests.map(({ name }) => name))
  for (const plugin of options.plugins) {
    const { name, requires = [] } = plugin.manifest
    const needs = requires.map((need) => parseNeed(need).name).filter((need) => present.has(need))
    app.register(fp(async (scope) => {
      if (needs.some((need) => failed.has(need))) failed.add(name)
      else contribute(kernel, scope, plugin, await startOne(plugin, kernel, scope))
    }, { name, fastify: '5.x', dependencies: needs, encapsulate: true })).after((error) => {
      if (error === null || error === undefined) return
      failed.add(name)
      problems.push(`plugin "${name}" failed to start: ${startFailure(error, options)}`)
    })
  }
}

function startFailure (error: Error, { startLimitMs = START_LIMIT_MS }: KernelOptions): string {
  if (!/^(AVV|FST)_ERR_PLUGIN_(EXEC_)?TIMEOUT$/.test((error as { code?: string }).code ?? '')) {
    return error.message
  }
  return `start() took over ${startLimitMs / 1000} seconds; move slow work into the background`
}

/** Takes what a plugin gave back for its declarations. */
function contribute (
  kernel: Booting, scope: FastifyInstance, plugin: Plugin, parts: Contributed
): void {
  const { manifest } = plugin
  kernel.started.push({ plugin, effects: parts.live.effects })
  for (const [name, handler] of parts.commands) {
    const full = commandName(manifest.name, name)
    const problemOf = schemaChecker(manifest.commands![name]!.args)
    // The node that asked may run another version, or lie.
    const release = kernel.options.cluster.commands.handle(full, (args) => {
      const problem = problemOf(args)
      if (problem === null) return handler(args)
      throw kernelError('invalid_request', `The arguments of the command "${full}": ${problem}`)
    })
    scope.addHook('onClose', async () => { release() })
  }
  for (const [name, handler] of parts.routes) {
    mountRoute(kernel, scope, { owner: manifest.name, name, decl: manifest.routes![name]!, handler })
  }
  for (const [name, handler] of parts.invoke) {
    kernel.capabilities.register(manifest.name, manifest.capabilities![name]!, handler)
  }
  for (const [key, service] of parts.services) {
    const { id } = manifest.provides![key]!
    if (!kernel.options.services.has(id)) kernel.services.set(id, service)
  }
  for (const [key, view] of parts.state) kernel.views.set(key, view)
}

async function close (kernel: Booting, graceMs: number, quiet: () => void): Promise<void> {
  const { options: { cluster, clock }, commands } = kernel
  // Told first: a request that is on its way is still refused, but no new one is sent.
  cluster.leave()
  kernel.drain.on = true
  const deadline = clock.mono() + graceMs
  while (commands.open > 0 && clock.mono() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS))
  }
  commands.abortAll('shutting_down')
  kernel.stopping.abort()
  await kernel.capabilities.close()
  quiet()
  await kernel.app.close()
}
