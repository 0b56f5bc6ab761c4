import os from 'node:os'
import type { FastifyInstance } from 'fastify'
import { createCapabilities } from './capabilities/index.js'
import { createBundle } from './bundle.js'
import { errorsOf, openApi } from './catalogue.js'
import { createCommands } from './commands.js'
import { createDocuments } from './cluster/documents.js'
import { kernelError } from './errors.js'
import { createBus } from './events.js'
import { createHealth } from './health.js'
import { createAccess, requireAuthority } from './http/access.js'
import { createStreamCount, methodFinder, mount } from './http/mount.js'
import { callerOf, createServer } from './http/server.js'
import { kernelManifest } from './kernel-manifest.js'
import { loadPlugins } from './load.js'
import { createReadiness } from './readiness.js'
import {
  BundleService, CommandService, InspectionService, InvocationService, SessionService, TokenService
} from './services.js'
import { baseState, redact, withViews } from './state.js'
import { systemHandlers, systemRoutes } from './system-routes.js'
import { schemaChecker } from './validate.js'
import { createVitals } from './vitals.js'
import type { CapabilityLimits } from './capabilities/limits.js'
import type { ConfigApi } from './config-api.js'
import type { Clock } from './clock.js'
import type { Caller, Logger, Manifest, NodeInfo, Plugin, RouteDecl, RouteRequest } from './define.js'
import type { BusEvent } from './events.js'
import type { HttpLimits } from './http/server.js'
import type { MountedRoute, MountOptions, StreamCount } from './http/mount.js'
import type { TokenStore } from './http/tokens.js'
import type { Served } from './http/origin.js'
import type { Inspection, Session } from './services.js'
import type { Started } from './load.js'
import type { StateView } from './state.js'
import type { Vitals } from './vitals.js'

/** Everything a kernel is made of; a node and the test kit fill it differently. */
export interface KernelOptions {
  node: NodeInfo
  session: Session & { readonly term: number }
  clock: Clock
  log: (plugin: string) => Logger
  /** Plugins to start, in start order. */
  plugins: readonly Plugin[]
  /** Bundled plugins that are off: their routes answer `plugin_disabled`. */
  off: readonly { plugin: Plugin, message: string }[]
  config: (plugin: string) => unknown
  settings: (key: string) => unknown
  /** Services from outside (tests: fakes), by id. */
  services: ReadonlyMap<string, unknown>
  limits: HttpLimits
  callLimits: Partial<CapabilityLimits>
  trustProxy: readonly string[]
  served: () => Served
  url: () => string | null
  tokens: TokenStore
  /** Authorities of loopback requests without a token. */
  local: ReadonlySet<string>
  /** Asks for a restart; false when one is under way. */
  restart: () => boolean
  /** Reading and changing svc.yaml; `changed` is called after a change. */
  configApi: (changed: () => void) => ConfigApi
  /** Warnings of this boot. */
  warnings: readonly string[]
  /** Told every event, from the first on. */
  onEvent?: (event: BusEvent) => void
  /** Tests: throw on events and replies that are not as declared. */
  strict: boolean
}

/** A booted kernel. */
export interface Kernel {
  readonly app: FastifyInstance
  readonly bus: ReturnType<typeof createBus>
  readonly health: ReturnType<typeof createHealth>
  readonly commands: ReturnType<typeof createCommands>
  readonly routes: readonly MountedRoute[]
  service (id: string): unknown
  /** Refuses new requests, gives open ones up to `graceMs`, ends them with one terminal, stops plugins. */
  close (graceMs: number): Promise<void>
}

/** Boots a kernel: server, registry, plugins in order, system routes. Throws BootError. */
export async function createKernel (options: KernelOptions): Promise<Kernel> {
  const kernel = assemble(options)
  const app = await createServer({
    clock: options.clock, log: kernel.log, limits: options.limits, trustProxy: options.trustProxy,
    served: options.served, authenticate: createAccess({ tokens: options.tokens, local: options.local,
      clock: options.clock }),
    methodsAt: (path) => kernel.methodsAt(path)
  })
  try {
    const streams = createStreamCount(options.limits.streamsPerToken)
    const parts: Parts = { app, routes: [], live: [], streams }
    inspect(kernel, parts, options)
    await loadPlugins(app, options.plugins, kernel.lent, contributions(kernel, parts), parts.live)
    mountAll(kernel, parts, options)
    await app.ready()
    kernel.bus.open()
    return booted(kernel, parts, options)
  } catch (error) {
    await app.close()
    kernel.documents.close()
    throw error
  }
}

type Assembly = ReturnType<typeof assemble>
interface Parts { app: FastifyInstance, routes: MountedRoute[], live: Started[], streams: StreamCount }

/** The kernel's own services, before any plugin. */
function assemble (options: KernelOptions) {
  const log = options.log('kernel')
  const bus = createBus({ strict: options.strict, onError: (err, kind) => { log.error({ err, kind },
    'a listener failed') } })
  const health = createHealth()
  bus.declare('kernel', kernelManifest.events)
  health.declare(kernelManifest.conflicts)
  const commands = createCommands()
  const documents = createDocuments({ nodeId: options.node.nodeId, isMaster: () => options.session.isMaster })
  const changes = createChanges()
  const readiness = createReadiness()
  const tags = new Set<string>()
  const views = new Map<string, StateView>()
  const manifests = options.plugins.map((p) => p.manifest)
  const services = new Map<string, unknown>([
    [BundleService.id, createBundle(manifests)], [CommandService.id, commands],
    [SessionService.id, options.session], [TokenService.id, options.tokens], ...options.services
  ])
  const reasons = new Map(errorsOf(manifests).map(({ reason, decl }) => [reason, decl]))
  const capabilities = createCapabilities({ clock: options.clock, log, node: options.node, commands,
    limits: options.callLimits, errorDecl: (reason) => reasons.get(reason) })
  if (!services.has(InvocationService.id)) services.set(InvocationService.id, capabilities.invocations)
  const stopping = new AbortController()
  const drain = { on: false }
  bus.on('*', changes.notify)
  if (options.onEvent !== undefined) bus.on('*', options.onEvent)
  return {
    log, bus, health, commands, documents, changes, readiness, tags, views, manifests, services, capabilities,
    stopping, drain,
    methodsAt: (_path: string): readonly string[] => [],
    lent: {
      node: options.node, clock: options.clock, log: options.log, bus, health,
      section: (name: string, decl: Parameters<typeof documents.section>[1]) => {
        const section = documents.section<unknown>(name, decl)
        section.observe(changes.notify)
        return section
      },
      service: (id: string) => services.get(id),
      config: options.config, settings: options.settings,
      advertise (tag: string, on: boolean) {
        if (on) tags.add(tag)
        else tags.delete(tag)
        changes.notify()
      },
      readiness: readiness.add
    }
  }
}

/** Wakes whoever follows the state. */
function createChanges (): { notify: () => void, next: (signal: AbortSignal) => Promise<void> } {
  const waiting = new Set<() => void>()
  return {
    notify () { for (const wake of [...waiting]) wake() },
    next: (signal) => new Promise((resolve) => {
      const done = (): void => {
        waiting.delete(done)
        signal.removeEventListener('abort', done)
        clearTimeout(timer)
        resolve()
      }
      // A quiet cluster still proves the stream alive.
      const timer = setTimeout(done, 10_000)
      waiting.add(done)
      signal.addEventListener('abort', done)
      if (signal.aborted) done()
    })
  }
}

/** What diagnostics may ask of the kernel. */
function inspect (kernel: Assembly, parts: Parts, options: KernelOptions): void {
  const inspection: Inspection = {
    plugins: () => parts.live.map(({ plugin: { manifest }, live }) =>
      ({ name: manifest.name, version: manifest.version, summary: manifest.summary,
        effects: live.effects() })),
    warnings: () => [...options.warnings],
    url: options.url,
    openCommands: () => kernel.commands.open,
    openStreams: () => parts.streams.total
  }
  if (!kernel.services.has(InspectionService.id)) kernel.services.set(InspectionService.id, inspection)
}

function contributions (kernel: Assembly, parts: Parts): Parameters<typeof loadPlugins>[3] {
  return {
    route (plugin, name, handler) {
      const decl = plugin.manifest.routes![name]!
      parts.routes.push({ owner: plugin.manifest.name, name, decl,
        handler: handler as MountedRoute['handler'] })
    },
    capability (plugin, name, handler) {
      kernel.capabilities.register(plugin.manifest.name, plugin.manifest.capabilities![name]!,
        handler as never)
    },
    service (id, instance) { if (!kernel.services.has(id)) kernel.services.set(id, instance) },
    view (key, view) { kernel.views.set(key, view) }
  }
}

function mountAll (kernel: Assembly, parts: Parts, options: KernelOptions): void {
  const handlers = systemHandlers(systemParts(kernel, parts, options))
  for (const [name, decl] of Object.entries(systemRoutes)) {
    parts.routes.push({ owner: 'kernel', name, decl, handler: handlers[name as keyof typeof systemRoutes] })
  }
  const session = kernel.capabilities.routes().filter((route) => {
    if (route.name === 'session') return true
    parts.routes.push({ owner: 'kernel', name: route.name, decl: route.decl,
      handler: route.handler as MountedRoute['handler'] })
    return false
  })
  const taken = new Set(parts.routes.map((r) => `${r.decl.method} ${r.decl.url}`))
  parts.routes.push(...disabledRoutes(options).filter((r) => !taken.has(`${r.decl.method} ${r.decl.url}`)))
  const mounting: MountOptions = { clock: options.clock, log: kernel.log, limits: options.limits,
    draining: () => kernel.drain.on, stopping: kernel.stopping.signal, ...(options.strict
      ? { checkReply } : {}) }
  for (const route of parts.routes) mount(parts.app, route, mounting, parts.streams)
  for (const { decl } of session) mountSession(kernel, parts.app, decl)
  kernel.methodsAt = methodFinder([...parts.routes.map((r) => r.decl), ...session.map((r) => r.decl)])
}

/** The WebSocket for capability calls: same guards as every route, then the socket is handed over. */
function mountSession (kernel: Assembly, app: FastifyInstance, decl: RouteDecl): void {
  app.get(decl.url, {
    websocket: true,
    onRequest: async (request) => {
      if (kernel.drain.on) throw kernelError('shutting_down')
      requireAuthority(callerOf(request), decl.authority)
    }
  }, (socket, request) => { kernel.capabilities.session(socket, callerOf(request)) })
}

/** Routes of plugins that are off answer with the line that brings them back. */
function disabledRoutes (options: KernelOptions): MountedRoute[] {
  return options.off.flatMap(({ plugin,
    message }) => Object.entries(plugin.manifest.routes ?? {}).map(([name, route]) => {
    const { method, url, summary, authority, params } = route
    return {
      owner: plugin.manifest.name, name,
      decl: { method, url, summary, authority, ...(params === undefined ? {} : { params }),
        query: { type: 'object' }, ...(method === 'POST' || method === 'PUT' ? { body: {} } : {}) },
      handler: () => { throw kernelError('plugin_disabled', message, { plugin: plugin.manifest.name }) }
    }
  }))
}

function checkReply (route: MountedRoute, body: unknown): void {
  if (route.decl.reply === undefined) return
  const problem = schemaChecker(route.decl.reply)(JSON.parse(JSON.stringify(body ?? null)))
  if (problem !== null) throw new Error(`the answer of ${route.decl.method} ${route.decl.url}: ${problem}`)
}

function systemParts (kernel: Assembly, parts: Parts,
  options: KernelOptions): Parameters<typeof systemHandlers>[0] {
  const vitals = createVitals(options.node.home, options.clock.mono)
  let document: string | undefined
  return {
    nodeId: options.node.nodeId, installId: options.node.installId, hostname: os.hostname(),
    address: () => [...options.served().addresses][0] ?? '127.0.0.1',
    ready: async (model) => {
      const checks = await kernel.readiness.run(model)
      const master = { name: 'master', ok: options.session.masterNodeId !== null,
        detail: options.session.masterNodeId ?? 'none known' }
      const all = [master, ...checks]
      return { ready: all.every((c) => c.ok) && (model === undefined || checks.length > 0), checks: all }
    },
    openApi: () => document ??= JSON.stringify(
      openApi(parts.routes.filter((r) => !options.off.some((o) => o.plugin.manifest.name === r.owner)),
        kernel.manifests as Manifest[], options.node.version)),
    state: async (request) => await stateFor(kernel, options, request, await vitals()),
    changed: kernel.changes.next,
    restart: () => {
      const accepted = options.restart()
      if (accepted) kernel.bus.emit('kernel', 'NodeRestarted', { nodeId: options.node.nodeId })
      return accepted
    },
    config: options.configApi(() => { kernel.health.raise('restart_needed', '') })
  }
}

async function stateFor (
  kernel: Assembly, options: KernelOptions, request: RouteRequest, vitals: Vitals
): Promise<Record<string, unknown>> {
  const { caller }: { caller: Caller } = request
  const base = baseState({
    node: options.node, session: options.session, health: kernel.health, vitals, url: options.url(),
    capabilities: [...kernel.tags].sort(), durableEvents: kernel.bus.durableCount,
    nowIso: new Date(options.clock.now()).toISOString(),
    machine: { model: os.machine(), chip: os.cpus()[0]?.model ?? 'unknown',
      os: `${os.type()} ${os.release()}`, commit: null }
  })
  const state = withViews(base, kernel.views, caller, (key, err) => { kernel.log.error({ err, key },
    'a state view failed') })
  return caller.authorities.has('operator') ? state : redact(state) as Record<string, unknown>
}

function booted (kernel: Assembly, parts: Parts, options: KernelOptions): Kernel {
  return {
    app: parts.app, bus: kernel.bus, health: kernel.health, commands: kernel.commands, routes: parts.routes,
    service: (id) => kernel.services.get(id),
    async close (graceMs) {
      kernel.drain.on = true
      const deadline = options.clock.mono() + graceMs
      while (kernel.commands.open > 0 && options.clock.mono() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      kernel.commands.abortAll('shutting_down')
      kernel.stopping.abort()
      await kernel.capabilities.close()
      await parts.app.close()
      kernel.documents.close()
    }
  }
}
