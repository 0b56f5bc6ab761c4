import os from 'node:os'
import { CallerService } from '../api/callers.js'
import { systemClock, type Clock } from '../api/clock.js'
import { kernelError, BootError, noSuchNode, SvcError } from '../api/errors.js'
import { IdentityService } from '../api/identity.js'
import {
  CapabilityHostService, ClusterService, CommandService, ConfigService, DeclarationService, EventTapService,
  GossipService, InspectionService, ListenerService, OwnApiService, SessionService, StateService,
  TokenService, type Declarations, type EventTap, type Inspection, type Listeners
} from '../api/services.js'
import { VitalsService } from '../api/vitals.js'
import { createStateSync, type StateSync } from '../state/sync.js'
import { createAccess, requireAuthority } from '../http/access.js'
import { setRelayed } from '../http/callers.js'
import { HttpListener } from '../http/http-listener.js'
import { LocalRequests } from '../http/local-api.js'
import { plainEvent } from '../http/tls/port.js'
import { TrafficService } from '../http/traffic.js'
import { TracerService } from '../observe/tracer.js'
import { createStateSource, namedBy, type StateSource } from '../state/source.js'
import { assemble, type Assembly, type KernelOptions } from './assembly.js'
import { routesOf } from './registry.js'
import { kernelManifest } from './kernel-manifest.js'
import { startPlugins, type Started } from './lifecycle.js'
import { PluginSwitch } from './switch.js'
import { showRoutes, type TableParts } from './table.js'
import { askMember, errorFrom, MemberFault } from '../net/ask-member.js'
import type { Manifest, RouteRequest } from '../api/plugin.js'
import type { MountedRoute } from '../http/request-context.js'
import type { TableOptions } from '../http/server.js'
import type { ConfigChange } from '../config/api.js'
import type { systemRoutes } from '../http/system-routes.js'

export type { KernelOptions } from './assembly.js'

export interface Kernel {
  readonly app: HttpListener
  readonly bus: Assembly['bus']
  readonly health: Assembly['health']
  readonly commands: Assembly['commands']
  readonly routes: readonly MountedRoute[]
  service (id: string): unknown
  /** Refuses new requests, gives open ones `graceMs`, ends the rest with an error, then stops the plugins. */
  close (graceMs: number): Promise<void>
}

/** Interval in ms at which a closing node checks whether commands are still open. */
const DRAIN_POLL_MS = 50
/** Grace period in ms for aborted requests to send their answers. */
const LAST_ANSWERS_MS = 1000
/** Grace period in ms for aborted commands to send their last chunk. */
const LAST_TERMINALS_MS = 10_000

type Booting = Assembly & { readonly front: HttpListener, readonly state: StateSource }

/** Starts the kernel, then the plugins in order, then the routes. Throws BootError with all failures. */
export async function createKernel (options: KernelOptions): Promise<Kernel> {
  const parts = assemble(options)
  const { limits, tokens, local, clock } = options
  const own = new LocalRequests()
  const front = new HttpListener(limits, { identity: options.tls, served: options.served })
  const kernel: Booting = { ...parts, front, state: createStateSource(parts) }
  addServices(kernel, own)
  const sync = syncOf(kernel)
  const stop = async (): Promise<void> => {
    sync.close()
    await front.close()
    for (const running of kernel.started.splice(booted).reverse()) await running.dispose()
    await plugins?.close()
  }
  let plugins: Started | undefined
  /** Number of plugins that started with the node; later ones were switched on at run time. */
  let booted = 0
  try {
    plugins = await startPlugins(options.plugins, kernel)
    if (plugins.problems.length > 0) throw new BootError(plugins.problems)
    booted = kernel.started.length
    const switches = new PluginSwitch(kernel, async () => { await showRoutes(table) })
    const table: TableParts = {
      kernel, front, own, tokenInClear: warnOnce(parts),
      authenticate: createAccess({ tokens, schemes: parts.schemes, local, clock }),
      routes: ownRoutes({ ...kernel, switches, sync })
    }
    await showRoutes(table)
    kernel.bus.open()
    if (!options.cluster.readings.counters().enabled) {
      kernel.health.raise('readings_disabled', 'SVC_TELEMETRY_DISABLE=1 is set.')
    }
    switches.tellChanged(options.changed)
    const quiet = kernel.state.publish()
    return {
      app: front, bus: kernel.bus, health: kernel.health, commands: kernel.commands, routes: kernel.routes,
      service: (id) => kernel.services.get(id),
      close: async (graceMs) => { await close(kernel, graceMs, async () => { quiet(); await stop() }) }
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Warns only once about tokens sent over plain HTTP. */
function warnOnce ({ health, log }: Assembly): NonNullable<TableOptions['tokenInClear']> {
  let told = false
  return ({ id }, { remoteAddress }) => {
    if (told) return
    told = true
    const { meaning, remediation } = kernelManifest.conflicts.token_in_clear
    health.raise('token_in_clear', `It was ${id}.`)
    log.warn({ token: id, from: remoteAddress }, `${meaning} ${remediation}`)
  }
}

/** Registers the kernel's services; a service given from outside (a test's fake) replaces the kernel's. */
function addServices (kernel: Booting, own: LocalRequests): void {
  const { options, bus, services } = kernel
  const { cluster } = options
  const tap: EventTap = {
    kinds: () => bus.durableKinds(),
    onDurable: (fn) => bus.on('*', ({ plane, kind, payload }) => {
      if (plane === 'durable') fn({ kind, payload })
    })
  }
  const all: [{ id: string }, unknown][] = [
    [CommandService, kernel.commands],
    [CapabilityHostService, kernel.capabilities], [SessionService, cluster.session],
    [ClusterService, cluster.service], [EventTapService, tap], [GossipService, cluster.readings],
    [TokenService, options.tokens], [TracerService, kernel.tracers], [TrafficService, kernel.traffic],
    [InspectionService, inspectionOf(kernel)], [StateService, kernel.state.reader],
    [VitalsService, options.vitals], [OwnApiService, own.of(kernel.front)],
    [ListenerService, {
      accept (connection, { device }) {
        setRelayed(connection, device)
        const { server } = kernel.front
        // A relayed connection carries plain HTTP even if the API uses TLS.
        server.emit(plainEvent(server), connection)
      }
    } satisfies Listeners],
    [ConfigService, kernel.config], [CallerService, kernel.schemes],
    [IdentityService, cluster.identity],
    [DeclarationService, declarationsOf(kernel.present)]
  ]
  for (const [{ id }, service] of all) services.set(id, service)
  for (const [id, service] of options.services) services.set(id, service)
}

function declarationsOf (present: Assembly['present']): Declarations {
  const on = (): Manifest[] => present.on.map(({ manifest }) => manifest)
  return {
    get manifests () { return [kernelManifest, ...on()] },
    get off () { return present.off.map(({ plugin: { manifest } }) => manifest) },
    whole: async () => (await import('../cli/declared.js')).declaredBy(on())
  }
}

function inspectionOf ({ options, config, started, commands, streams }: Booting): Inspection {
  return {
    plugins: () => started.map(({ plugin: { manifest: { name, version, summary } }, effects }) =>
      ({ name, version, summary, effects: effects() })),
    warnings: () => [...options.warnings],
    url: options.url,
    openCommands: () => commands.open,
    openStreams: () => streams.total,
    dials: () => options.cluster.network.dials(),
    links: () => options.cluster.network.links(),
    config: () => {
      const { file, entries } = config.read()
      return { file, entries }
    }
  }
}

function syncOf (kernel: Booting): StateSync {
  const { options, state, changes, log } = kernel
  return createStateSync({
    state: state.known, read: state.reader.read, changed: changes.next,
    readings: namedBy(kernel, 'stateReadings'), clock: options.clock, log
  })
}

function ownRoutes (kernel: SystemParts): MountedRoute[] {
  const handlers: Record<string, unknown> = systemHandlers(kernel)
  return routesOf([kernelManifest])
    .map((route) => ({ ...route, handler: handlers[route.name] as MountedRoute['handler'] }))
}

async function close (kernel: Booting, graceMs: number, stop: () => Promise<void>): Promise<void> {
  const { options: { cluster, clock }, commands } = kernel
  // Announces the shutdown first, so that other nodes stop sending requests; late requests are refused.
  cluster.leave()
  kernel.drain.on = true
  await drained(commands, clock, graceMs)
  commands.abortAll('shutting_down')
  const owners = [kernel, ...kernel.started]
  for (const { work } of owners) work.stop(() => kernelError('shutting_down'))
  // Gives answers that wait for the audit, and the answer to a restart request, time to be sent. Uses real
  // time, since sockets do not follow a test's clock.
  await Promise.all(owners.map(async ({ work }) => { await work.ended(systemClock, LAST_ANSWERS_MS) }))
  // Gives commands time to send their last chunk; clients that do not read it are then disconnected.
  await drained(commands, systemClock, LAST_TERMINALS_MS)
  await new Promise((resolve) => setImmediate(resolve))
  await stop()
}

async function drained (commands: Assembly['commands'], clock: Clock, ms: number): Promise<void> {
  const deadline = clock.mono() + ms
  while (commands.open > 0 && clock.mono() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS))
  }
}

type SystemParts =
  Pick<Assembly, 'options' | 'config' | 'present' | 'bus' | 'readiness' | 'changes'> &
  { readonly state: StateSource, readonly switches: PluginSwitch, readonly sync: StateSync }

/** Limits for another node's answer to a restart request: size in bytes, then time in ms. */
const ANSWER_BYTES = 64 * 1024
const ANSWER_MS = 60_000
/** Minimum time in ms between two events in a followed stream. */
const FOLLOW_PAUSE_MS = 100

type Handlers =
  { [K in Exclude<keyof typeof systemRoutes, 'stateSync'>]: (request: RouteRequest) => unknown } &
  { stateSync: StateSync['serve'] }

function systemHandlers (kernel: SystemParts): Handlers {
  const { nodeId, installId } = kernel.options.node
  return {
    healthz: () => ({ ok: true }),
    health: () => ({ ok: true }),
    readyz: (request) => readyz(kernel, request),
    state: (request) => state(kernel, request),
    stateSync: kernel.sync.serve,
    nodeId: () => nodeId,
    identity: ({ caller: { authorities } }) => ({
      nodeId,
      nodeInstallId: installId,
      ...authorities.has('operator')
        ? { hostname: os.hostname(), ipAddress: [...kernel.options.served().addresses][0] ?? '127.0.0.1' }
        : { hostname: null, ipAddress: null }
    }),
    caller: ({ caller: { id, authorities } }) => ({ id, authorities: [...authorities].sort() }),
    restart: (request) => restart(kernel, request),
    ...pluginHandlers(kernel)
  }
}

function pluginHandlers (
  kernel: SystemParts
): Pick<Handlers, 'config' | 'setConfig' | 'plugins' | 'switchPlugin'> {
  const { present, config } = kernel
  const all = (): { manifest: Manifest, why: string | null }[] => [
    ...present.on.map(({ manifest }) => ({ manifest, why: null })),
    ...present.off.map(({ plugin: { manifest }, message }) => ({ manifest, why: message }))
  ]
  return {
    config: () => config.read(),
    setConfig: async (request) => {
      const change = request.body as ConfigChange
      request.note({ set: config.masked(change) })
      return await kernel.switches.write(change, request.caller)
    },
    plugins: () => ({
      plugins: all().map(({ manifest: { name, version, summary }, why }) =>
        ({ name, version, summary, enabled: why === null, why }))
    }),
    switchPlugin: async (request) => {
      const { name } = request.params as { name: string }
      const { enabled } = request.body as { enabled: boolean }
      return await kernel.switches.turn(name, enabled, request.caller)
    }
  }
}

async function readyz ({ readiness, options }: SystemParts, request: RouteRequest): Promise<unknown> {
  const { model } = request.query as { model?: string }
  // The readiness check of a model may send that model a request, so it requires an authority.
  if (model !== undefined) requireAuthority(request.caller, 'read')
  const of = await readiness.run(model)
  const { masterNodeId } = options.cluster.session
  const all = [{ name: 'master', ok: masterNodeId !== null, detail: masterNodeId ?? 'none known' }, ...of]
  // Details name nodes and models, so only callers with `read` see them.
  const checks = request.caller.authorities.has('read') ? all : all.map((c) => ({ ...c, detail: '' }))
  const ready = checks.every((c) => c.ok) && (model === undefined || of.length > 0)
  if (ready) return { ready, checks }
  const missing = checks.filter((c) => !c.ok)
    .map(({ name, detail }) => detail === '' ? name : `${name}: ${detail}`).join('; ')
  throw kernelError('not_ready', `Not ready: ${missing}`, { checks })
}

async function state (kernel: SystemParts, request: RouteRequest): Promise<unknown> {
  const { follow, at } = request.query as { follow?: string, at?: string }
  if (at !== undefined && follow === '1') {
    throw kernelError('invalid_request', '`at` and `follow` cannot be combined.',
      { param: 'at', issues: [{ path: 'at', message: 'cannot be combined with follow' }] })
  }
  if (at !== undefined) return await kernel.state.at(at, request.caller)
  if (follow !== '1') return await kernel.state.now(request.caller)
  return await followState(kernel, request)
}

async function followState ({ state, changes }: SystemParts, request: RouteRequest): Promise<void> {
  const stream = request.open({ contentType: 'text/event-stream' })
  let last = ''
  while (!request.signal.aborted && !stream.closed) {
    const text = JSON.stringify(await state.now(request.caller))
    await stream.write(text === last ? ': keep-alive\n\n' : `data: ${text}\n\n`)
    last = text
    await changes.next(request.signal)
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_PAUSE_MS))
  }
}

function restart ({ options, bus }: SystemParts, request: RouteRequest): unknown {
  const { node_id: id } = request.query as { node_id?: string }
  const { nodeId } = options.node
  if (id !== undefined && options.cluster.service.resolve(id)?.self !== true) {
    return restartOther(options, id, request)
  }
  if (!options.restart()) throw kernelError('restart_pending')
  bus.emit('kernel', 'NodeRestarted', { nodeId })
  return { status: 'restarting', node_id: nodeId }
}

/** Asks another node to restart. Throws `node_not_found`, `unreachable`, and the other node's error. */
async function restartOther (
  { clock, cluster: { service } }: SystemParts['options'], id: string,
  { caller, signal }: RouteRequest
): Promise<unknown> {
  const other = service.resolve(id)
  if (other === undefined) throw noSuchNode(id, service.nodes())
  try {
    return JSON.parse(await askMember({ cluster: service, clock }, other, {
      method: 'POST', path: '/admin/restart', caller, signal, ms: ANSWER_MS, bytes: ANSWER_BYTES,
      refusals: true
    }))
  } catch (error) {
    if (error instanceof SvcError) throw error
    throw errorFrom(error instanceof MemberFault ? error.refusal : null, other) ??
      kernelError('unreachable', `The node "${id}" sent an unreadable answer.`)
  }
}
