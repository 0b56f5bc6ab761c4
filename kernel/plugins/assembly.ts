import { CallerSchemes } from '../http/callers.js'
import { CredentialWatch } from '../http/credential-watch.js'
import { createStreamCount, OpenRequests } from '../http/open-requests.js'
import { createTraffic } from '../http/traffic.js'
import { createTracers } from '../observe/tracer.js'
import { createChanges } from '../state/changes.js'
import { createCapabilities } from './capabilities.js'
import { createCommands } from './commands.js'
import { createBus, type Bus, type BusEvent } from './events.js'
import { createHealth, createReadiness } from './health.js'
import { kernelManifest } from './kernel-manifest.js'
import type { Clock } from '../api/clock.js'
import type { ClusterHost } from '../api/cluster.js'
import type { Logger, NodeInfo, Plugin, Refs } from '../api/plugin.js'
import type { CallLimits } from '../api/services.js'
import type { ConfigApi } from '../config/api.js'
import type { ResolvedConfig } from '../config/resolve.js'
import type { MountedRoute } from '../http/request-context.js'
import type { ServedNames } from '../http/origin.js'
import type { HttpLimits } from '../http/limits.js'
import type { ServerIdentity } from '../http/tls/identity.js'
import type { TokenStore } from '../http/tokens.js'
import type { StateView } from '../state/state.js'
import type { NodeVitals } from '../state/vitals.js'
import type { Loaded, OffPlugin } from './load.js'

export interface KernelOptions {
  node: NodeInfo
  cluster: ClusterHost
  vitals: NodeVitals
  clock: Clock
  log: (plugin: string) => Logger
  /** Plugins to start, in start order. */
  plugins: readonly Plugin[]
  /** Disabled plugins, whose routes answer `plugin_disabled`. */
  off: readonly OffPlugin[]
  config: (plugin: string) => unknown
  settings: (key: string) => unknown
  services: ReadonlyMap<string, unknown>
  limits: HttpLimits
  callLimits: Partial<CallLimits>
  trustProxy: readonly string[]
  /** TLS identity of the API; undefined for plain HTTP. */
  tls?: ServerIdentity | undefined
  served: () => ServedNames
  url: () => string | null
  tokens: TokenStore
  /** The plugins' credential schemes, which the token store of a real node uses too. */
  schemes?: CallerSchemes
  /** Authorities of loopback requests without a token. */
  local: ReadonlySet<string>
  /** Requests a restart; false if one is already in progress. */
  restart: () => boolean
  configApi: ConfigApi
  /** Rereads svc.yaml and its plugins. Throws BootError with all problems. */
  reload: () => Promise<Loaded>
  changed: Loaded['changed']
  warnings: readonly string[]
  onEvent?: (event: BusEvent) => void
  /** Tests only: throws for events and replies that differ from their declarations. */
  strict: boolean
  startLimitMs?: number | undefined
}

/** A started plugin and what it contributes. */
export interface RunningPlugin {
  readonly plugin: Plugin
  readonly routes: readonly MountedRoute[]
  readonly work: OpenRequests
  effects (): string[]
  /** The optional services that the plugin read during `start` and may have stored. */
  readonly kept: Refs
  /** Removes the plugin's contributions and undoes its effects. Safe to call twice. */
  dispose (): Promise<void>
}

export type Assembly = ReturnType<typeof assemble>

/** Creates the kernel's parts and connects them. */
export function assemble (options: KernelOptions) {
  const { cluster, clock } = options
  const log = options.log('kernel')
  const bus = openBus(options, log)
  const health = createHealth()
  health.declare(kernelManifest.conflicts)
  const commands = createCommands((id, end) => cluster.openStream(id, end))
  const changes = createChanges()
  bus.on('*', changes.notify)
  /** The plugins that are on and off; a change replaces the lists, so that readers see a consistent state. */
  const present: Pick<KernelOptions, 'off'> & { on: readonly Plugin[] } =
    { on: options.plugins, off: options.off }
  const schemes = options.schemes ?? new CallerSchemes()
  const credentials = new CredentialWatch(clock,
    (id) => options.tokens.stands(id) && schemes.stands(id) !== false)
  return {
    options, log, bus, health, commands, changes, present, schemes, credentials,
    capabilities: createCapabilities(options),
    tracers: createTracers(),
    traffic: createTraffic(),
    config: options.configApi,
    readiness: createReadiness(),
    tags: new Set<string>(),
    views: new Map<string, StateView>(),
    services: new Map<string, unknown>(),
    /** Every route in the current route table. */
    routes: [] as MountedRoute[],
    started: [] as RunningPlugin[],
    /** Settings of plugins that started later than the node, by plugin. */
    adopted: new Map<string, ResolvedConfig>(),
    work: new OpenRequests(),
    streams: createStreamCount(options.limits.streamsPerToken),
    /** `on` is true while the node drains and refuses new work. */
    drain: { on: false }
  }
}

function openBus (options: KernelOptions, log: Logger): Bus {
  const onError = (err: unknown, kind: string): void => { log.error({ err, kind }, 'a listener failed') }
  const onInvalid = (plugin: string, kind: string, problem: string): void => {
    log.error({ plugin, kind, problem },
      'an event differs from its declaration; it is delivered, and later ones without this message')
  }
  const bus = createBus({ strict: options.strict, onError, onInvalid })
  bus.declare('kernel', kernelManifest.events)
  if (options.onEvent !== undefined) bus.on('*', options.onEvent)
  return bus
}
