import os from 'node:os'
import type { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { assemble } from '../boot/assembly.js'
import { openApi } from './catalogue.js'
import { createAccess } from '../http/access.js'
import { collectBody } from '../http/body.js'
import { createFacts } from '../state/facts.js'
import { createStreamCount } from '../http/mount.js'
import { createServer } from '../http/server.js'
import { loadPlugins } from './load.js'
import { mountAll } from './mounting.js'
import { FreeMemoryService, InspectionService, StateHistoryService, StateService } from '../api/services.js'
import { kernelManifest } from './kernel-manifest.js'
import { kernelError, SvcError } from '../api/errors.js'
import { clusterHandlers } from '../cluster/routes.js'
import { commandName } from './context.js'
import { systemClock } from '../api/clock.js'
import { baseState, redact, withViews } from '../state/state.js'
import { createStateSync } from '../state/sync.js'
import { systemHandlers } from '../http/system-routes.js'
import { schemaChecker } from '../api/validate.js'
import { createFreeMemory } from '../machine/vitals.js'
import type { Assembly } from '../boot/assembly.js'
import type { CapabilityLimits } from '../calls/limits.js'
import type { Clock } from '../api/clock.js'
import type { ClusterCore } from '../cluster/cluster.js'
import type { Telemetry } from '../cluster/gossip/telemetry.js'
import type { Network } from '../cluster/routes.js'
import type { ConfigApi } from '../config/api.js'
import type { Caller, Logger, Manifest, NodeInfo, Plugin } from '../api/plugin.js'
import type { BusEvent } from './events.js'
import type { MountedRoute, StreamCount } from '../http/mount.js'
import type { HttpLimits } from '../http/server.js'
import type { Served } from '../http/origin.js'
import type { TokenStore } from '../http/tokens.js'
import type { Contributions, Started } from './load.js'
import type { Facts } from '../state/facts.js'
import type { Inspection, StateHistory, StateReader } from '../api/services.js'
import type { NodeFacts } from '../state/state.js'
import type { SystemParts } from '../http/system-routes.js'
import type { Vitals } from '../machine/vitals.js'

/** Everything a kernel is made of; a node and the test kit fill it differently. */
export interface KernelOptions {
  node: NodeInfo
  cluster: ClusterCore
  network: Network
  telemetry: Telemetry
  vitals: () => Promise<Vitals>
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
export interface Parts {
  app: FastifyInstance
  routes: MountedRoute[]
  live: Started[]
  streams: StreamCount
  facts: Facts
}

/** How often a node looks whether there is something new to tell, and how soon after a change it does, ms. */
const FACTS_MS = 2000
/** Most that is read of another node's answer to a restart. */
const ANSWER_BYTES = 64 * 1024
const FACTS_SOON_MS = 20

/** Boots a kernel: server, registry, plugins in order, system routes. Throws BootError. */
export async function createKernel (options: KernelOptions): Promise<Kernel> {
  const kernel = assemble(options)
  const { clock, limits, tokens, local } = options
  const app = await createServer({
    clock, log: kernel.log, limits, trustProxy: options.trustProxy, served: options.served,
    authenticate: createAccess({ tokens, local, clock }), methodsAt: (path) => kernel.methodsAt(path),
    rewrite: (method, url) => kernel.rewrite(method, url), answered: kernel.traffic.answered
  })
  try {
    const parts: Parts = {
      app, routes: [], live: [], streams: createStreamCount(limits.streamsPerToken),
      facts: factsOf(kernel, options)
    }
    inspect(kernel, parts, options)
    await loadPlugins(app, options.plugins, kernel.lent, contributions(kernel, parts), parts.live)
    const handlers = {
      ...systemHandlers(systemParts(kernel, parts, options)), ...clusterHandlers(options)
    }
    const sync = createStateSync({
      state: async (caller) => await stateFor(kernel, parts, options, caller),
      changed: kernel.changes.next,
      clock,
      log: kernel.log
    })
    app.addHook('preClose', async () => { sync.close() })
    mountAll(kernel, parts, options, handlers, sync)
    await app.ready()
    kernel.bus.open()
    return booted(kernel, parts, options, keepTelling(kernel, parts, options))
  } catch (error) {
    await app.close()
    throw error
  }
}

function factsOf (kernel: Assembly, options: KernelOptions): Facts {
  const { node, cluster, telemetry, vitals, url, network, clock } = options
  return createFacts({
    node, cluster, telemetry, vitals, url,
    health: kernel.health,
    peers: () => network.peers(),
    bandwidth: (installId) => network.bytesPerSecond(installId),
    tags: kernel.tags,
    views: kernel.views,
    unreachable: kernelManifest.conflicts.unreachable,
    mono: clock.mono,
    now: clock.now
  })
}

/**
 * Tells the other nodes about this one, whenever something of it changed and now and then. Returns what ends
 * that.
 */
function keepTelling (kernel: Assembly, parts: Parts, options: KernelOptions): () => void {
  const publish = (): void => {
    compareVersions(kernel, options)
    parts.facts.publish().catch((err: unknown) => {
      kernel.log.error({ err }, 'this node could not tell the others about itself')
    })
  }
  let waiting: (() => void) | undefined
  // A burst of changes, such as those of busy runners, is told once.
  const soon = (): void => {
    waiting ??= options.clock.after(FACTS_SOON_MS, () => {
      waiting = undefined
      publish()
    })
  }
  const stops = [
    options.clock.every(FACTS_MS, publish), kernel.changes.listen(soon), () => { waiting?.() },
    options.cluster.service.onPeers(kernel.changes.notify),
    options.cluster.session.onChange(kernel.changes.notify),
    options.cluster.control.observe(kernel.changes.notify),
    options.cluster.replicas.observe(kernel.changes.notify)
  ]
  publish()
  return () => { for (const stop of stops) stop() }
}

function compareVersions (kernel: Assembly, { network, node }: KernelOptions): void {
  const other = network.peers().find(({ version }) => version !== node.version)
  if (other === undefined) kernel.health.clear('version_mismatch')
  else kernel.health.raise('version_mismatch', `${node.version} here, ${other.version} on ${other.name}.`)
}

/** Plugins see the state with its addresses. */
const INSIDE: Caller = { id: 'node', mode: 'direct', authorities: new Set(['read', 'operator']) }

/** What diagnostics may ask of the kernel, and what it knows of the cluster. */
function inspect (kernel: Assembly, parts: Parts, options: KernelOptions): void {
  const inspection: Inspection = {
    plugins: () => parts.live.map(({ plugin: { manifest }, live }) =>
      ({ name: manifest.name, version: manifest.version, summary: manifest.summary,
        effects: live.effects() })),
    warnings: () => [...options.warnings],
    url: options.url,
    openCommands: () => kernel.commands.open,
    openStreams: () => parts.streams.total,
    dials: () => options.network.dials(),
    links: () => options.network.links(),
    config: () => {
      const { file, entries } = options.configApi(() => {}).read()
      return { file, entries }
    }
  }
  // A test may have put its own there.
  const own: [string, unknown][] = [
    [InspectionService.id, inspection],
    [StateService.id, stateReader(kernel, parts, options)],
    // In real time: what the machine says does not wait for a test's clock.
    [FreeMemoryService.id, createFreeMemory({ clock: systemClock, log: kernel.log })]
  ]
  for (const [id, service] of own) if (!kernel.services.has(id)) kernel.services.set(id, service)
}

/** The state for plugins. Those that ask while one is being made get the same. */
function stateReader (kernel: Assembly, parts: Parts, options: KernelOptions): StateReader {
  let making: Promise<Record<string, unknown>> | undefined
  return {
    read: () => making ??= parts.facts.all().finally(() => { making = undefined })
      .then((nodes) => stateOf(kernel, options, nodes, INSIDE)),
    known () {
      const nodes = parts.facts.known()
      return nodes === undefined ? undefined : stateOf(kernel, options, nodes, INSIDE)
    },
    onChange: kernel.changes.listen
  }
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
    command (plugin, name, handler) {
      const full = commandName(plugin.manifest.name, name)
      parts.app.addHook('onClose', async () => { release() })
      const problemOf = schemaChecker(plugin.manifest.commands![name]!.args)
      // The node that asked may run another version, or lie.
      const release = kernel.cluster.desk.handle(full, (args) => {
        const problem = problemOf(args)
        if (problem === null) return handler(args)
        throw kernelError('invalid_request', `The arguments of the command "${full}": ${problem}`)
      })
    },
    view (key, view) { kernel.views.set(key, view) }
  }
}

function systemParts (kernel: Assembly, parts: Parts, options: KernelOptions): SystemParts {
  const { cluster, node } = options
  let document: Buffer | undefined
  return {
    nodeId: node.nodeId, installId: node.installId, hostname: os.hostname(),
    address: () => [...options.served().addresses][0] ?? '127.0.0.1',
    ready: async (model) => {
      const checks = await kernel.readiness.run(model)
      const { masterNodeId } = cluster.session
      const master = { name: 'master', ok: masterNodeId !== null, detail: masterNodeId ?? 'none known' }
      const all = [master, ...checks]
      return { ready: all.every((c) => c.ok) && (model === undefined || checks.length > 0), checks: all }
    },
    openApi: () => document ??=
      Buffer.from(JSON.stringify(describe(kernel.manifests, parts, options))),
    state: async ({ caller }) => await stateFor(kernel, parts, options, caller),
    stateAt: async (moment, caller) => await stateAt(kernel, options, moment, caller),
    changed: kernel.changes.next,
    restart: () => {
      const accepted = options.restart()
      if (accepted) kernel.bus.emit('kernel', 'NodeRestarted', { nodeId: node.nodeId })
      return accepted
    },
    isSelf: (id) => cluster.directory.resolve(id)?.self === true,
    restartOther: async (id, { caller, signal }) => await restartOther(cluster, id, caller, signal),
    switched (plugin, on) {
      const kind = on ? 'PluginEnabled' : 'PluginDisabled'
      kernel.bus.emit('kernel', kind, { nodeId: node.nodeId, plugin })
    },
    plugins: () => [
      ...options.plugins.map(({ manifest }) => ({ manifest, why: null })),
      ...options.off.map(({ plugin: { manifest }, message }) => ({ manifest, why: message }))
    ],
    config: options.configApi(() => { kernel.health.raise('restart_needed', '') })
  }
}

async function restartOther (
  cluster: ClusterCore, id: string, caller: Caller, signal: AbortSignal
): Promise<unknown> {
  const other = cluster.directory.resolve(id)
  if (other === undefined) throw kernelError('node_not_found', `No node "${id}" is known.`)
  const answer = await cluster.service.request(other.installId, {
    method: 'POST', path: '/admin/restart', caller, signal
  })
  const body = await readAnswer(answer.body).catch(() => {
    throw kernelError('unreachable', `The node "${id}" gave no answer that can be read.`)
  }) as { error?: { reason: string, message: string, retryable: boolean } }
  if (body.error === undefined) return body
  const { reason, message, retryable } = body.error
  throw new SvcError(reason, { status: answer.status, retryable, message, remedy: '' })
}

async function readAnswer (source: Readable): Promise<unknown> {
  const bytes = await new Promise<Buffer>((resolve, reject) => {
    collectBody(source, ANSWER_BYTES, (error, body) => {
      if (body !== undefined) return resolve(body)
      source.destroy()
      reject(error!)
    })
  })
  return JSON.parse(bytes.toString())
}

/** The OpenAPI document of what is on; routes of disabled plugins are not part of the interface. */
function describe (manifests: readonly Manifest[], parts: Parts, options: KernelOptions): object {
  const off = new Set(options.off.map((o) => o.plugin.manifest.name))
  return openApi(parts.routes.filter((r) => !off.has(r.owner)), manifests, options.node.version)
}

/** What a caller sees of the cluster. */
async function stateFor (
  kernel: Assembly, parts: Parts, options: KernelOptions, caller: Caller
): Promise<Record<string, unknown>> {
  return stateOf(kernel, options, await parts.facts.all(), caller)
}

function stateOf (
  kernel: Assembly, { cluster }: KernelOptions, nodes: readonly NodeFacts[], caller: Caller
): Record<string, unknown> {
  const status = cluster.status()
  const base = baseState({
    session: cluster.session, quorum: status.quorum, stale: status.stale, nodes,
    durableEvents: kernel.bus.durableCount
  })
  const onError = (key: string, err: unknown): void => {
    kernel.log.error({ err, view: key }, 'a state view failed')
  }
  const state = withViews(base, kernel.views, caller, onError)
  return caller.authorities.has('operator') ? state : redact(state) as Record<string, unknown>
}

/** What a caller may see of an earlier state. Its events are as GET /events: for operators only. */
async function stateAt (
  kernel: Assembly, options: KernelOptions, moment: string, caller: Caller
): Promise<unknown> {
  const history = kernel.services.get(StateHistoryService.id) as StateHistory | undefined
  if (history === undefined) {
    const keeper = options.off.find(({ plugin }) =>
      Object.values(plugin.manifest.provides ?? {}).some(({ id }) => id === StateHistoryService.id))
    const why = keeper?.message ?? 'No plugin that does it is there.'
    throw kernelError('plugin_disabled', `No earlier state is kept on this node. ${why}`,
      keeper === undefined ? {} : { plugin: keeper.plugin.manifest.name })
  }
  const then = await history.at(moment)
  return caller.authorities.has('operator') ? then : redact({ ...then, events: null })
}

function booted (kernel: Assembly, parts: Parts, options: KernelOptions, quiet: () => void): Kernel {
  return {
    app: parts.app, bus: kernel.bus, health: kernel.health, commands: kernel.commands, routes: parts.routes,
    service: (id) => kernel.services.get(id),
    async close (graceMs) {
      // Told first: a request that is on its way is still refused, but no new one is sent.
      options.cluster.leave()
      kernel.drain.on = true
      const deadline = options.clock.mono() + graceMs
      while (kernel.commands.open > 0 && options.clock.mono() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      kernel.commands.abortAll('shutting_down')
      kernel.stopping.abort()
      await kernel.capabilities.close()
      quiet()
      await parts.app.close()
    }
  }
}
