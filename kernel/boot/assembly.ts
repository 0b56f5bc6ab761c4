import { setMaxListeners } from 'node:events'
import { createCapabilities } from '../calls/index.js'
import { createBundle } from '../cards/bundle.js'
import { errorsOf } from '../plugins/catalogue.js'
import { createChanges } from '../state/changes.js'
import { createCommands } from '../calls/commands.js'
import { createBus } from '../plugins/events.js'
import { createHealth } from '../plugins/health.js'
import { kernelManifest } from '../plugins/kernel-manifest.js'
import { createReadiness } from '../plugins/readiness.js'
import {
  BundleService, ClusterService, CommandService, EventTapService, InvocationService, SessionService,
  TelemetryService, TokenService
} from '../api/services.js'
import { createTracers, TracerService } from '../observe/tracer.js'
import { createTraffic, TrafficService } from '../calls/traffic.js'
import type { Capabilities } from '../calls/index.js'
import type { Changes } from '../state/changes.js'
import type { ClusterCore } from '../cluster/cluster.js'
import type { Lent } from '../plugins/context.js'
import type { Logger, Manifest } from '../api/plugin.js'
import type { Bus } from '../plugins/events.js'
import type { Health } from '../plugins/health.js'
import type { KernelOptions } from '../plugins/kernel.js'
import type { Rewrite } from '../http/model-path.js'
import type { Readiness } from '../plugins/readiness.js'
import type { EventTap } from '../api/services.js'
import type { StateView } from '../state/state.js'
import type { Tracers } from '../observe/tracer.js'
import type { TrafficDesk } from '../calls/traffic.js'

/** The kernel's own parts, before any plugin has started. */
export interface Assembly {
  log: Logger
  bus: Bus
  health: Health
  commands: ReturnType<typeof createCommands>
  cluster: ClusterCore
  changes: Changes
  readiness: Readiness
  /** Tags under `nodeCapabilities`. */
  tags: Set<string>
  /** Plugins' views of /state, by key. */
  views: Map<string, StateView>
  manifests: readonly Manifest[]
  /** Services by id; plugins add theirs as they start. */
  services: Map<string, unknown>
  capabilities: Capabilities
  /** Where requests meet what records them. */
  tracers: Tracers
  /** Where what went through meets those that count it. */
  traffic: TrafficDesk
  /** Aborts when the node stops for good. */
  stopping: AbortController
  /** On while open work may end and no new work is taken. */
  drain: { on: boolean }
  /** Methods of the routes that a path fits; set once the routes are mounted. */
  methodsAt: (path: string) => readonly string[]
  /** Encodes the slash of a model id in a path; set then too. */
  rewrite: Rewrite
  /** What plugins' contexts are made of. */
  lent: Lent
}

/** Makes the parts and ties them together. */
export function assemble (options: KernelOptions): Assembly {
  const log = options.log('kernel')
  const bus = openBus(options, log)
  const health = createHealth()
  health.declare(kernelManifest.conflicts)
  const { cluster } = options
  const commands = createCommands((id, end) => cluster.streams.open(id, end))
  const changes = createChanges()
  bus.on('*', changes.notify)
  const readiness = createReadiness()
  const tags = new Set<string>()
  const manifests = options.plugins.map((p) => p.manifest)
  const reasons = new Map(errorsOf(manifests).map(({ reason, decl }) => [reason, decl]))
  const tracers = createTracers()
  const capabilities = createCapabilities({
    clock: options.clock, log, node: options.node, commands, limits: options.callLimits,
    cluster: cluster.service, elsewhere: (id) => elsewhere(options, id),
    errorDecl: (reason) => reasons.get(reason), tracers,
    onOutcome: (outcome) => { traffic.ended(outcome) }
  })
  const traffic = createTraffic(() => capabilities.invoker.queues())
  const services = new Map<string, unknown>([
    [BundleService.id, createBundle(manifests)], [CommandService.id, commands],
    [InvocationService.id, capabilities.invocations], [SessionService.id, cluster.session],
    [ClusterService.id, cluster.service], [EventTapService.id, tapOf(bus)],
    [TelemetryService.id, options.telemetry],
    [TokenService.id, options.tokens], [TracerService.id, tracers], [TrafficService.id, traffic],
    ...options.services
  ])
  const stopping = new AbortController()
  // Every open call listens.
  setMaxListeners(0, stopping.signal)
  return {
    log, bus, health, commands, cluster, changes, readiness, tags, views: new Map(), manifests, services,
    capabilities, tracers, traffic, stopping, drain: { on: false }, methodsAt: () => [],
    rewrite: (_method, url) => url,
    lent: {
      node: options.node, clock: options.clock, log: options.log, bus, health,
      section (name, decl) {
        const section = cluster.sections.section<unknown>(name, decl)
        section.observe(changes.notify)
        return section
      },
      service: (id) => services.get(id),
      config: options.config,
      settings: options.settings,
      command: async (name, args, id) => (await cluster.desk.run(name, args, id)).result,
      advertise (tag, on) {
        if (on) tags.add(tag)
        else tags.delete(tag)
        changes.notify()
      },
      readiness: readiness.add
    }
  }
}

/** The install id of a live node that says it can serve a capability. */
function elsewhere ({ cluster, node }: KernelOptions, id: string): string | null {
  for (const { installId, key, value, old } of cluster.replicas.entries()) {
    if (old || installId === node.installId || key !== 'node/capabilities') continue
    if (Array.isArray(value) && value.includes(id)) return installId
  }
  return null
}

/** Durable events, for whoever keeps them. */
function tapOf (bus: Bus): EventTap {
  return {
    kinds: () => bus.durableKinds(),
    onDurable: (fn) => bus.on('*', ({ plane, kind, payload }) => {
      if (plane === 'durable') fn({ kind, payload })
    })
  }
}

function openBus (options: KernelOptions, log: Logger): Bus {
  const onError = (err: unknown, kind: string): void => { log.error({ err, kind }, 'a listener failed') }
  const onInvalid = (plugin: string, kind: string, problem: string): void => {
    log.error({ plugin, kind, problem },
      'an event is not as its plugin declares it; it is told all the same, and later ones without a word')
  }
  const bus = createBus({ strict: options.strict, onError, onInvalid })
  bus.declare('kernel', kernelManifest.events)
  if (options.onEvent !== undefined) bus.on('*', options.onEvent)
  return bus
}
