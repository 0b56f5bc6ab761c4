import os from 'node:os'
import type { FastifyInstance } from 'fastify'
import { assemble } from './assembly.js'
import { openApi } from './catalogue.js'
import { createAccess } from './http/access.js'
import { createStreamCount } from './http/mount.js'
import { createServer } from './http/server.js'
import { loadPlugins } from './load.js'
import { mountAll } from './mounting.js'
import { InspectionService } from './services.js'
import { baseState, redact, withViews } from './state.js'
import { systemHandlers } from './system-routes.js'
import { createVitals } from './vitals.js'
import type { Assembly } from './assembly.js'
import type { CapabilityLimits } from './capabilities/limits.js'
import type { Clock } from './clock.js'
import type { ConfigApi } from './config-api.js'
import type { Logger, Manifest, NodeInfo, Plugin, RouteRequest } from './define.js'
import type { BusEvent } from './events.js'
import type { MountedRoute, StreamCount } from './http/mount.js'
import type { HttpLimits } from './http/server.js'
import type { Served } from './http/origin.js'
import type { TokenStore } from './http/tokens.js'
import type { Contributions, Started } from './load.js'
import type { Inspection, Session } from './services.js'
import type { SystemParts } from './system-routes.js'
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
  readonly bus: Assembly['bus']
  readonly health: Assembly['health']
  readonly commands: Assembly['commands']
  readonly routes: readonly MountedRoute[]
  service (id: string): unknown
  /** Refuses new requests, gives open ones up to `graceMs`, ends them with one terminal, stops plugins. */
  close (graceMs: number): Promise<void>
}

/** What grows while a kernel boots. */
export interface Parts { app: FastifyInstance, routes: MountedRoute[], live: Started[], streams: StreamCount }

/** Boots a kernel: server, registry, plugins in order, system routes. Throws BootError. */
export async function createKernel (options: KernelOptions): Promise<Kernel> {
  const kernel = assemble(options)
  const { clock, limits, tokens, local } = options
  const app = await createServer({
    clock, log: kernel.log, limits, trustProxy: options.trustProxy, served: options.served,
    authenticate: createAccess({ tokens, local, clock }), methodsAt: (path) => kernel.methodsAt(path)
  })
  try {
    const parts: Parts = { app, routes: [], live: [], streams: createStreamCount(limits.streamsPerToken) }
    inspect(kernel, parts, options)
    await loadPlugins(app, options.plugins, kernel.lent, contributions(kernel, parts), parts.live)
    mountAll(kernel, parts, options, systemHandlers(systemParts(kernel, parts, options)))
    await app.ready()
    kernel.bus.open()
    return booted(kernel, parts, options)
  } catch (error) {
    await app.close()
    kernel.documents.close()
    throw error
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

function contributions (kernel: Assembly, parts: Parts): Contributions {
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

function systemParts (kernel: Assembly, parts: Parts, options: KernelOptions): SystemParts {
  const vitals = createVitals(options.node.home, options.clock.mono)
  let document: string | undefined
  return {
    nodeId: options.node.nodeId, installId: options.node.installId, hostname: os.hostname(),
    address: () => [...options.served().addresses][0] ?? '127.0.0.1',
    ready: async (model) => {
      const checks = await kernel.readiness.run(model)
      const { masterNodeId } = options.session
      const master = { name: 'master', ok: masterNodeId !== null, detail: masterNodeId ?? 'none known' }
      const all = [master, ...checks]
      return { ready: all.every((c) => c.ok) && (model === undefined || checks.length > 0), checks: all }
    },
    openApi: () => document ??= JSON.stringify(describe(kernel.manifests, parts, options)),
    state: async (request) => await stateFor(kernel, options, request, await vitals()),
    changed: kernel.changes.next,
    restart: () => {
      const accepted = options.restart()
      if (accepted) kernel.bus.emit('kernel', 'NodeRestarted', { nodeId: options.node.nodeId })
      return accepted
    },
    switched (plugin, on) {
      const kind = on ? 'PluginEnabled' : 'PluginDisabled'
      kernel.bus.emit('kernel', kind, { nodeId: options.node.nodeId, plugin })
    },
    config: options.configApi(() => { kernel.health.raise('restart_needed', '') })
  }
}

/** The OpenAPI document of what is on; routes of disabled plugins are not part of the interface. */
function describe (manifests: readonly Manifest[], parts: Parts, options: KernelOptions): object {
  const off = new Set(options.off.map((o) => o.plugin.manifest.name))
  return openApi(parts.routes.filter((r) => !off.has(r.owner)), manifests, options.node.version)
}

async function stateFor (
  kernel: Assembly, options: KernelOptions, request: RouteRequest, vitals: Vitals
): Promise<Record<string, unknown>> {
  const { caller } = request
  const base = baseState({
    node: options.node, session: options.session, health: kernel.health, vitals, url: options.url(),
    capabilities: [...kernel.tags].sort(), durableEvents: kernel.bus.durableCount,
    nowIso: new Date(options.clock.now()).toISOString(),
    machine: { model: os.machine(), chip: os.cpus()[0]?.model ?? 'unknown',
      os: `${os.type()} ${os.release()}`, commit: null }
  })
  const onError = (key: string, err: unknown): void => {
    kernel.log.error({ err, key }, 'a state view failed')
  }
  const state = withViews(base, kernel.views, caller, onError)
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
