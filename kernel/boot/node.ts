import { rmSync } from 'node:fs'
import os from 'node:os'
import { join } from 'node:path'
import { AuditService, type Audit } from '../api/audit.js'
import { isClusterPlugin, type ClusterHost, type ClusterOpening } from '../api/cluster.js'
import { systemClock } from '../api/clock.js'
import { createConfigApi } from '../config/api.js'
import { advertisedName, openApiTls, type ApiTls } from './api-tls.js'
import { version } from './package.js'
import {
  HomeError, homeFile, installId, lockHome, releaseReserve, prepareHome, startTicks, writeVersioned
} from './home.js'
import { secondLoopback } from './launcher.js'
import { missingHomeFile } from './lost-files.js'
import { newNodeId } from './identity.js'
import { CallerSchemes } from '../http/callers.js'
import { operatorToken, openTokens, type TokenStore } from '../http/tokens.js'
import { showIdentity } from '../http/tls/port.js'
import { watchIdentity } from '../http/tls/watch.js'
import { limitsOf } from '../http/limits.js'
import { createKernel, type Kernel, type KernelOptions } from '../plugins/kernel.js'
import { loadPlugins, type Setup } from '../plugins/load.js'
import { createLog, type NodeLog } from '../observe/log.js'
import { LogRingService } from '../api/services.js'
import { watchSelf } from '../observe/self-watch.js'
import { createVitals, type NodeVitals } from '../state/vitals.js'
import { BootError, type SvcError } from '../api/errors.js'
import { openLoneCluster } from './lone-cluster.js'
import type { KernelConfig } from '../config/kernel-settings.js'
import type { NodeInfo, Plugin } from '../api/plugin.js'
import type { ServedNames } from '../http/origin.js'

export interface NodeOptions {
  /** Absolute path of the home directory. */
  home: string
  configFlag?: string
  /** Settings from command-line flags, by dotted path. */
  flags: Record<string, unknown>
  env: NodeJS.ProcessEnv
  /** The plugins that ship with svc. */
  bundled: readonly Plugin[]
  /** Pid of the launcher, which holds the sockets while the node restarts. */
  launcher?: number
  /** Sockets inherited from the launcher: one for the address, one for the second loopback address. */
  listenFds?: readonly number[]
  /** `--join`: a join token, or host:port of a member. */
  join?: string
}

/** A booted node; it answers once `listen` resolves. */
export interface SvcNode {
  readonly nodeId: string
  readonly home: string
  readonly url: string
  /** Fingerprint and authority of the API's certificate; undefined without TLS. */
  readonly tls: { readonly fingerprint: string, readonly authority: string | null } | undefined
  readonly warnings: readonly string[]
  /** Whether the log goes to stdout as JSON. */
  readonly logsJson: boolean
  /** Whether this node joined a cluster when this process started. */
  readonly joined: boolean
  /** Throws with code EADDRINUSE when another program has the port. */
  listen (): Promise<{ url: string }>
  /** Drains, ends open requests, stops the plugins and unlocks the home. */
  stop (reason: string): Promise<void>
  /** Registers the listener for API restart requests; it must stop this process and start a new one. */
  onRestart (fn: () => void): void
  /** Resolves when the other members refuse this process, which must then stop. */
  readonly refused: Promise<SvcError>
  /** Last resort for an uncaught error: logs it, then restarts the node gracefully. */
  failed (error: unknown): void
}

/** Grace period in ms for open requests after a stop is requested. */
const DRAIN_MS = 10_000

/** Boots a node. Throws HomeError, ConfigError or BootError; the error lists every problem found. */
export async function createNode (options: NodeOptions): Promise<SvcNode> {
  prepareHome(options.home)
  await releaseReserve(options.home)
  const release = lockHome(options.home)
  try {
    return await boot(options, release)
  } catch (error) {
    release()
    throw error
  }
}

function requireFiles ({ home, join }: NodeOptions, { order }: Setup): void {
  const lost = missingHomeFile(home, { joining: join !== undefined, alone: !order.some(isClusterPlugin) })
  if (lost !== null) throw new HomeError(`${lost.message} ${lost.remedy}`)
}

async function boot (options: NodeOptions, release: () => void): Promise<SvcNode> {
  const setup = await loadPlugins(options)
  requireFiles(options, setup)
  const keys = setup.config.kernel
  const node: NodeInfo = {
    nodeId: newNodeId(), installId: installId(options.home), name: keys.name ?? os.hostname(),
    home: options.home, version: version(), configPath: setup.file
  }
  const log = createLog({
    level: keys.logging.level, json: keys.logging.enabled, ingestUrl: keys.logging.ingest_url,
    clock: systemClock, base: { node: node.nodeId }
  })
  const address: Address = { host: keys.api.host, port: keys.api.port, url: null, outside: null }
  const served = servedBy(address, keys.api)
  const tls = await openApiTls({
    settings: keys.api, home: options.home, installId: node.installId, file: setup.file, served,
    now: systemClock.now
  })
  const restart = createRestart()
  const vitals = createVitals(options.home)
  const schemes = new CallerSchemes()
  const tokens = openTokens({
    home: options.home, clock: systemClock, known: () => setup.authorities,
    operator: operatorToken(options.home), others: schemes
  })
  const reload = async (): Promise<Setup> => {
    const now = await loadPlugins(options)
    for (const authority of now.authorities) setup.authorities.add(authority)
    return now
  }
  let started!: (kernel: Kernel) => void
  const start = new Promise<Kernel>((resolve) => { started = resolve })
  let refuse!: (why: SvcError) => void
  const refused = new Promise<SvcError>((resolve) => { refuse = resolve })
  const cluster = await openCluster(setup, log, {
    refused: refuse, stands: tokens.stands, makers: tokens.makers, node, settings: keys.cluster,
    vitals: vitals.vitals, api: address, apiUrl: () => address.outside, join: options.join,
    gossip: options.env['SVC_TELEMETRY_DISABLE'] !== '1', clock: systemClock,
    emit: (kind, payload) => { void start.then(({ bus }) => bus.emit('kernel', kind, payload)) }
  })
  const made: Made =
    { node, log, address, restart, refused, cluster, vitals, tokens, schemes, served, tls, reload }
  try {
    const kernel = await createKernel(kernelOptions(options, setup, made))
    started(kernel)
    for (const warning of setup.warnings) log.root.warn({}, warning)
    const unwatch = watchSelf({
      health: kernel.health, home: options.home, clock: systemClock,
      storing: () => cluster.storing, onStoring: cluster.onStoring
    })
    return running({ ...made, options, kernel, setup, release: () => { unwatch(); release() } })
  } catch (error) {
    await cluster.stop()
    throw error
  }
}

/** `url` is for clients on this machine, `outside` for clients on other machines. */
interface Address { host: string, port: number, url: string | null, outside: string | null }
type Restart = ReturnType<typeof createRestart>
interface Made {
  node: NodeInfo
  log: NodeLog
  address: Address
  restart: Restart
  refused: Promise<SvcError>
  cluster: ClusterHost
  vitals: NodeVitals
  tokens: TokenStore
  schemes: CallerSchemes
  served: () => ServedNames
  tls: ApiTls | undefined
  reload: KernelOptions['reload']
}

function kernelOptions (options: NodeOptions, setup: Setup, made: Made): KernelOptions {
  const keys = setup.config.kernel
  return {
    node: made.node,
    cluster: made.cluster,
    vitals: made.vitals,
    clock: systemClock,
    log: made.log.child,
    plugins: setup.order,
    off: setup.off,
    config: (plugin) => setup.config.plugin(plugin),
    settings: (key) => setup.config.settings(key),
    services: new Map([[LogRingService.id, made.log.ring]]),
    ...limitsOf(keys),
    trustProxy: keys.api.trust_proxy,
    served: made.served,
    tls: made.tls?.current,
    url: () => made.address.outside,
    tokens: made.tokens,
    schemes: made.schemes,
    local: new Set(keys.access.local),
    restart: made.restart.ask,
    reload: made.reload,
    strict: false,
    changed: setup.changed,
    warnings: setup.warnings,
    configApi: createConfigApi({
      path: setup.file ?? join(options.home, homeFile.config), config: setup.config,
      written: setup.written, owners: setup.owners, authorities: [...setup.authorities], env: options.env
    })
  }
}

/** Milliseconds for which the list of the machine's addresses is cached. */
const ADDRESSES_MS = 1000

/** Returns the served names and addresses, cached because every request needs them. */
function servedBy (address: Address, api: KernelConfig['api']): () => ServedNames {
  let last: { host: string, port: number, at: number, served: ServedNames } | undefined
  return () => {
    const { host, port } = address
    const now = systemClock.mono()
    if (last === undefined || last.host !== host || last.port !== port || now - last.at > ADDRESSES_MS) {
      last = { host, port, at: now, served: servedAt(address, api) }
    }
    return last.served
  }
}

function servedAt (address: Address, api: KernelConfig['api']): ServedNames {
  return {
    addresses: addressesOf(address.host), port: address.port, secure: api.tls !== 'off',
    allowedHosts: api.allowed_hosts.map((h) => h.toLowerCase()), allowedOrigins: api.allowed_origins
  }
}

function addressesOf (host: string): ReadonlySet<string> {
  const other = secondLoopback(host)
  if (other !== undefined) return new Set(['127.0.0.1', other])
  if (host !== '0.0.0.0' && host !== '::') return new Set([host.toLowerCase()])
  const interfaces = Object.values(os.networkInterfaces()).flatMap((list) => list ?? [])
  return new Set(interfaces.map((i) => i.address.toLowerCase()))
}

interface Running extends Made { options: NodeOptions, kernel: Kernel, setup: Setup, release: () => void }

function running (parts: Running): SvcNode {
  const { kernel, address, node, options } = parts
  const runFile = join(options.home, homeFile.running)
  let stopped: Promise<void> | undefined
  let unwatch = (): void => {}
  return {
    nodeId: node.nodeId, home: options.home, warnings: parts.setup.warnings,
    logsJson: parts.setup.config.kernel.logging.enabled,
    joined: parts.cluster.joined,
    get url () { return address.url ?? '' },
    get tls () {
      const { tls } = parts
      return tls && { fingerprint: tls.current.fingerprint, authority: tls.source.authority }
    },
    onRestart: parts.restart.onAsk,
    refused: parts.refused,
    failed (err) {
      parts.log.root.fatal({ err }, 'a defect: an uncaught error; the node restarts')
      parts.restart.ask()
    },
    async listen () {
      await listen(parts, options.listenFds ?? [])
      parts.cluster.start((request, response) => { kernel.app.routing(request, response) },
        () => kernel.service(AuditService.id) as Audit | undefined)
      const processes = [process.pid, ...options.launcher === undefined ? [] : [options.launcher]]
        .map((pid) => ({ pid, startTicks: startTicks(pid) }))
      const tellRunning = (): void => {
        const fingerprint = parts.tls?.current.fingerprint
        writeVersioned(runFile, 1,
          { url: address.url, fingerprint, pid: process.pid, nodeId: node.nodeId, processes })
      }
      tellRunning()
      unwatch = watchTls(parts, tellRunning)
      const plugins = parts.setup.order.map((p) => p.manifest.name)
      parts.log.root.info({ url: address.url, version: node.version, plugins }, 'listening')
      return { url: address.url! }
    },
    stop (reason) {
      stopped ??= (async () => {
        parts.log.root.info({ reason }, 'stopping')
        unwatch()
        // Keeps run/node.json during a restart, since the address stays the same and clients still need it.
        if (reason !== 'restart') rmSync(runFile, { force: true })
        await kernel.close(DRAIN_MS)
        await parts.cluster.stop()
        await parts.log.close()
        parts.release()
      })()
      return stopped
    }
  }
}

/** Replaces the certificate before it expires, then calls `told`. Returns a function that stops this. */
function watchTls ({ tls, kernel, log }: Running, told: () => void): () => void {
  if (tls === undefined) return () => {}
  return watchIdentity({
    source: tls.source, first: tls.current, clock: systemClock, log: log.child('tls'), health: kernel.health,
    show: (identity) => {
      showIdentity(kernel.app.server, identity)
      tls.current = identity
      told()
    }
  })
}

async function listen (
  { kernel, address, log, tls, served }: Running, [fd, fd6]: readonly number[]
): Promise<void> {
  const first = address.host === 'localhost' ? '127.0.0.1' : address.host
  await kernel.app.listen(fd === undefined ? { host: first, port: address.port } : { fd })
  const bound = kernel.app.server.address()
  if (bound !== null && typeof bound === 'object') address.port = bound.port
  const host = secondLoopback(address.host)
  if (host !== undefined) {
    const where = fd6 === undefined ? { host, port: address.port } : { fd: fd6 }
    await kernel.app.listenAlso(where).catch(({ code }: NodeJS.ErrnoException) => {
      if (code !== 'EADDRINUSE') return
      log.root.warn({},
        `[${host}]:${address.port} is in use by another program, and "localhost" may resolve to it`)
    })
  }
  const shown = address.host === '0.0.0.0' ? '127.0.0.1' : address.host === '::' ? '[::1]'
    : address.host.includes(':') ? `[${address.host}]` : address.host
  const scheme = tls === undefined ? 'http' : 'https'
  address.url = `${scheme}://${shown}:${address.port}`
  const wildcard = address.host === '0.0.0.0' || address.host === '::'
  const name = tls?.source.authority === null ? advertisedName(tls, served()) : undefined
  address.outside = name !== undefined
    ? `${scheme}://${/:\d+$/.test(name) ? name : `${name}:${address.port}`}`
    : wildcard ? outsideUrl(scheme, address) : address.url
}

/** URL at which other machines reach a node that listens on all addresses. */
function outsideUrl (scheme: string, { port, url }: Address): string | null {
  const all = Object.values(os.networkInterfaces()).flatMap((list) => list ?? [])
  const first = all.find((i) => !i.internal && i.family === 'IPv4')
  return first === undefined ? url : `${scheme}://${first.address}:${port}`
}

/** Allows at most one pending restart. */
function createRestart (): { ask: () => boolean, onAsk: (fn: () => void) => void } {
  let asked = false
  let listener: (() => void) | undefined
  return {
    ask () {
      if (asked) return false
      asked = true
      // Delayed so that the answer to the restart request goes out first.
      setImmediate(() => listener?.())
      return true
    },
    onAsk (fn) { listener = fn }
  }
}

/** Opens the cluster plugin; without one, opens a single-node cluster or, to join, throws BootError. */
async function openCluster (
  { order, off }: Setup, log: NodeLog, opening: Omit<ClusterOpening, 'log'>
): Promise<ClusterHost> {
  const plugin = order.find(isClusterPlugin)
  if (plugin !== undefined) return await plugin.open({ ...opening, log: log.child(plugin.manifest.name) })
  if (opening.join === undefined) return await openLoneCluster({ ...opening, log: log.child('kernel') })
  const why = off.find((one) => isClusterPlugin(one.plugin))?.message ?? 'The cluster plugin is missing.'
  throw new BootError([`this node cannot join a cluster. ${why}`])
}
