import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { Readable } from 'node:stream'
import { join } from 'node:path'
import type { LightMyRequestResponse } from 'fastify'
import { newNodeId } from '../boot/identity.js'
import { sortByDependency } from '../plugins/graph.js'
import { prepareHome } from '../boot/home.js'
import { loneCluster } from '../boot/lone-cluster.js'
import { createKernel, type Kernel, type KernelOptions } from '../plugins/kernel.js'
import { disabledMessage, schemaFaults } from '../plugins/load.js'
import { isKernelService, kernelManifest } from '../plugins/kernel-manifest.js'
import { createLogRing } from '../observe/log-ring.js'
import { checkManifests } from '../plugins/registry.js'
import { LogRingService } from '../api/services.js'
import { BootError } from '../api/errors.js'
import { formatProblems } from '../config/problems.js'
import { resolveConfig, type ResolvedConfig } from '../config/resolve.js'
import { parsePath } from '../config/paths.js'
import { readConfigText } from '../config/text.js'
import { limitsOf } from '../http/limits.js'
import { ownerOf } from '../plugins/installation.js'
import { createVitals } from '../state/vitals.js'
import { fingerprintOfRaw, newKeyPair } from '../net/keys.js'
import { manualClock, type ManualClock } from './manual-clock.js'
import type { Clock } from '../api/clock.js'
import type { ClusterHost } from '../api/cluster.js'
import type { ClientChunk, Logger, Manifest, NodeInfo, Plugin, ServiceRef } from '../api/plugin.js'
import type { HealthReason } from '../plugins/health.js'
import type { HttpListener } from '../http/http-listener.js'
import type { TokenStore } from '../http/tokens.js'

export interface Fake { id: string, instance: unknown }

/** A typed fake of a service with only the given parts; using another part throws an error that names it. */
export function fake<T> (ref: ServiceRef<T>, parts: Partial<T>): Fake {
  const instance = new Proxy(parts, {
    get (target, key) {
      if (key in target || typeof key === 'symbol' || key === 'then') {
        return Reflect.get(target, key) as unknown
      }
      throw new Error(`the fake of "${ref.id}" has no "${key}"`)
    }
  })
  return { id: ref.id, instance }
}

/**
 * The part of a test context that `startPlugin` uses; tap's `t`, node:test's context, or any object with a
 * teardown function.
 */
export interface TestContext { teardown? (fn: () => unknown): unknown, after? (fn: () => unknown): unknown }

export interface StartOptions {
  /** Fakes for services that the plugin consumes; a fake may also replace a kernel service. */
  fakes?: readonly Fake[]
  /** Authorities that the test's requests have; every known authority when absent. */
  allow?: readonly string[]
  /** The plugin's settings in svc.yaml; validated and filled with defaults as in a real boot. */
  config?: Record<string, unknown>
  /** Values of the top-level settings that the plugin owns. */
  settings?: Record<string, unknown>
  /** Additional real plugins to start before the tested one. */
  plugins?: readonly Plugin[]
  clock?: Clock
  /** Bundled plugins that count as disabled. */
  off?: readonly Plugin[]
  limits?: Partial<KernelOptions['limits']>
  callLimits?: KernelOptions['callLimits']
  allowedOrigins?: readonly string[]
  /** Time limit in ms for a plugin's `start`; 30 s when absent. */
  startLimitMs?: number
  /** False to count invalid events and replies, as in production, instead of throwing. */
  strict?: boolean
}

/** A frame of a capability's answer; `kind` is started, chunk, completed, failed or cancelled. */
export interface AnswerFrame {
  header: { kind: string, payload: unknown, error: { reason: string, message: string } | null }
  media: Uint8Array | null
}

export interface Rig {
  app: HttpListener
  kernel: Kernel
  /** Makes a request without a socket. */
  inject (
    options: { method?: string, url: string, payload?: unknown, headers?: Record<string, string> }
  ): Promise<LightMyRequestResponse>
  /**
   * Calls a streaming capability (`id@version`) with chunks from a client, whose media are raw bytes;
   * resolves to the frames of the answer. Throws an Error with the error body of a refused call.
   */
  call (name: string, payload: unknown, chunks?: readonly ClientChunk[]): Promise<AnswerFrame[]>
  /** All events emitted so far. */
  events: { kind: string, payload: Record<string, unknown> }[]
  /** Conflicts that are currently raised. */
  conflicts (): HealthReason[]
  /** A service the plugin provides. */
  service<T> (ref: ServiceRef<T>): T
  logged: { level: string, fields: Record<string, unknown>, message: string }[]
  clock: ManualClock
  home: string
  /** Opens a port on loopback and returns its URL. */
  listen (): Promise<string>
  stop (): Promise<void>
}

/**
 * Starts one plugin on the real kernel, but not the plugins it requires; fakes replace the services it
 * consumes. Stops at the end of the test. Throws BootError as a real start does.
 */
export async function startPlugin (t: TestContext, plugin: Plugin, given: StartOptions = {}): Promise<Rig> {
  const options = { ...given, plugins: await startedBefore(plugin, given) }
  const home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  prepareHome(home)
  const clock = (options.clock ?? manualClock()) as ManualClock
  const plugins = [...options.plugins, { ...plugin, manifest: standalone(plugin.manifest) }]
  refuseBadDeclarations([...options.plugins, plugin])
  const events: Rig['events'] = []
  const logged: Rig['logged'] = []
  const where = { host: '127.0.0.1', port: 80 }
  const parts = kernelParts(plugin, options, { home, clock, logged, where })
  const kernel = await createKernel({
    ...parts, plugins, onEvent: ({ kind, payload }) => { events.push({ kind, payload }) }
  })
  let stopped: Promise<void> | undefined
  const close = async (): Promise<void> => {
    // The kernel's own timers do not keep the process alive, and a test may have no other handle.
    const hold = setInterval(() => {}, 1000)
    await kernel.close(0).finally(() => {
      clearInterval(hold)
      void parts.cluster.stop()
      rmSync(home, { recursive: true, force: true })
    })
  }
  const stop = (): Promise<void> => stopped ??= close()
  ;(t.teardown ?? t.after)?.call(t, stop)
  const inject: Rig['inject'] = async (request) => {
    const headers = { host: `127.0.0.1:${where.port}`, ...request.headers }
    const sent = { method: 'GET', ...request, headers } as never
    return await kernel.app.inject(sent)
  }
  return {
    app: kernel.app, kernel, events, logged, clock, home, stop, inject,
    call: async (name, payload, chunks = []) => await callCapability(inject, name, payload, chunks),
    conflicts: () => kernel.health.snapshot().reasons,
    service: <T>(ref: ServiceRef<T>) => kernel.service(ref.id) as T,
    async listen () {
      const url = await kernel.app.listen({ host: where.host, port: 0 })
      where.port = Number(new URL(url).port)
      return url
    }
  }
}

async function callCapability (
  inject: Rig['inject'], name: string, payload: unknown, chunks: readonly ClientChunk[]
): Promise<AnswerFrame[]> {
  const { decodeFrames, framedBody, FRAMES_TYPE } =
    await import('../../plugins/capabilities/frames/frames.js')
  const [id, version] = name.split('@')
  const { revisions } = (await inject({ url: '/v1/capabilities' })).json<{ revisions: object }>()
  const revision: unknown = Object.entries(revisions).find(([known]) => known === name)?.[1] ?? 'none'
  const call = { capability_id: id, version, descriptor_revision: revision, payload }
  const body = await collect(framedBody(call, Readable.from(chunks)))
  const { statusCode, rawPayload, body: text } = await inject({
    method: 'POST', url: '/v1/capabilities/stream', payload: Buffer.concat(body),
    headers: { 'content-type': FRAMES_TYPE }
  })
  if (statusCode !== 200) throw new Error(text)
  return await collect(decodeFrames(Readable.from([rawPayload])))
}

async function collect<T> (source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const one of source) all.push(one)
  return all
}

/** The additional plugins, preceded by the bundled capability server if any plugin has capabilities. */
async function startedBefore (plugin: Plugin, { plugins = [], off = [] }: StartOptions): Promise<Plugin[]> {
  const all = [plugin, ...plugins, ...off]
  if (all.every(({ manifest }) => manifest.capabilities === undefined)) return [...plugins]
  const { default: server } = await import('../../plugins/capabilities/index.js')
  const named = all.some(({ manifest }) => manifest.name === server.manifest.name)
  return named ? [...plugins] : [server, ...plugins]
}

/** The manifest without requirements: consumed services are optional, so that fakes can replace them. */
function standalone (manifest: Manifest): Manifest {
  const consumesOptional = { ...manifest.consumesOptional, ...manifest.consumes }
  return { ...manifest, requires: [], consumesOptional, consumes: {} }
}

function refuseBadDeclarations (plugins: readonly Plugin[]): void {
  const manifests = plugins.map((p) => ({ ...p.manifest, requires: [], consumes: {} }))
  const problems = [
    ...sortByDependency({ manifests, disabled: new Set() }).problems, ...checkManifests(manifests),
    ...manifests.flatMap(schemaFaults)
  ]
  if (problems.length > 0) throw new BootError(problems)
}

interface Made { home: string, clock: Clock, logged: Rig['logged'], where: { host: string, port: number } }

function kernelParts (plugin: Plugin, options: StartOptions, made: Made): Omit<KernelOptions, 'plugins'> {
  const node = testNode(newNodeId(), made.home)
  const all = [plugin, ...options.plugins ?? []]
  const known = new Set([kernelManifest as Manifest, ...all.map((p) => p.manifest)]
    .flatMap((m) => Object.keys(m.authorities ?? {})))
  const config = settingsOf(plugin, all, options)
  const { limits, callLimits } = limitsOf(config.kernel)
  return {
    node,
    cluster: memoryCluster(node, made.clock, recorder('kernel', made.logged)),
    vitals: createVitals(),
    clock: made.clock,
    log: (name) => recorder(name, made.logged),
    off: (options.off ?? []).map((p) => ({ plugin: p, message: disabledMessage(p) })),
    config: config.plugin,
    settings: config.settings,
    services: new Map([
      [LogRingService.id, createLogRing({ clock: made.clock })], ...standIns(plugin, options)
    ]),
    limits: { ...limits, ...options.limits },
    callLimits: { ...callLimits, ...options.callLimits },
    trustProxy: [],
    served: () => ({
      addresses: new Set(['127.0.0.1']), port: made.where.port, secure: false, allowedHosts: [],
      allowedOrigins: options.allowedOrigins ?? []
    }),
    url: () => `http://127.0.0.1:${made.where.port}`,
    tokens: memoryTokens(),
    local: new Set(options.allow ?? known),
    restart: () => true,
    ...switchable(plugin, options, config),
    changed: [],
    warnings: [],
    strict: options.strict ?? true,
    startLimitMs: options.startLimitMs
  }
}

/** An in-memory single-node cluster. Tests can also send requests as another node, with any authorities. */
function memoryCluster (node: NodeInfo, clock: Clock, log: Logger): ClusterHost {
  const { privateKey, publicKey } = newKeyPair('Ed25519')
  const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const alone = loneCluster({
    node, clock, log, path: null, gossip: true, apiUrl: () => null, emit: () => {},
    key: { privateKeyPem, fingerprint: fingerprintOfRaw(publicKey) }
  })
  return { ...alone, vouched: (_, authorities) => [...authorities] }
}

/** A fake svc.yaml in which only the `enabled` settings of plugins can be changed. */
function switchable (
  plugin: Plugin, options: StartOptions, config: ResolvedConfig
): Pick<KernelOptions, 'configApi' | 'reload'> {
  const manifest = standalone(plugin.manifest)
  const plugins = [...options.plugins ?? [], { ...plugin, manifest }, ...options.off ?? []]
  const disabled = new Set((options.off ?? []).map((one) => one.manifest.name))
  const turn = (name: string, on: boolean): void => { if (on) disabled.delete(name); else disabled.add(name) }
  return {
    reload: async () => {
      const { order, down } = sortByDependency({ manifests: plugins.map((one) => one.manifest), disabled })
      const named = (name: string): Plugin => plugins.find((one) => one.manifest.name === name)!
      const reasons = [...[...disabled].map((name) => [name, `The plugin "${name}" is disabled.`] as const),
        ...down.map(({ plugin: name, message }) => [name, message] as const)]
      return {
        order: order.map(named), off: reasons.map(([name, message]) => ({ plugin: named(name), message })),
        config, owners: [], authorities: new Set(), changed: [], stale: []
      }
    },
    configApi: {
      read: () => ({ revision: '', file: '', entries: [], unset: [], restart_needed: false }),
      write ({ set }) {
        const before = [...disabled]
        for (const [path, value] of Object.entries(set)) {
          const [top, name, key] = parsePath(path)!
          if (top === 'plugins' && key === 'enabled') turn(name!, value !== false)
        }
        const undo = (): void => { disabled.clear(); for (const name of before) disabled.add(name) }
        return { revision: '', undo }
      },
      value: () => Object.fromEntries([...disabled].map((name) => [name, { enabled: false }])),
      took: () => {}, know: () => {}, pending: () => false, keep: () => {}, masked: () => ({})
    }
  }
}

function testNode (nodeId: string, home: string): NodeInfo {
  return {
    nodeId, installId: '00000000-0000-4000-8000-000000000000', name: 'test', home, version: '0.0.0',
    configPath: null
  }
}

/** Settings resolved from a svc.yaml with the test's values. Throws BootError naming the key. */
function settingsOf (
  { manifest: { name } }: Plugin, all: readonly Plugin[], { config = {}, settings }: StartOptions
): ResolvedConfig {
  const raw = readConfigText(JSON.stringify({ ...settings, plugins: { [name]: config } }), null)
  const owners = all.map(({ manifest }) => ownerOf(manifest, true))
  const { config: resolved, problems } = resolveConfig(raw, { owners, env: {} })
  if (problems.length > 0) throw new BootError(problems.map((problem) => formatProblems([problem])))
  return resolved
}

/** The test's fakes; using a consumed service without a fake throws an error that names the missing part. */
function standIns (plugin: Plugin, { plugins = [], ...options }: StartOptions): Map<string, unknown> {
  const provided = plugins.flatMap(({ manifest: { provides = {} } }) =>
    Object.values(provides).map(({ id }) => id))
  const missing = Object.values(plugin.manifest.consumes ?? {})
    .filter((ref) => !isKernelService(ref.id) && !provided.includes(ref.id))
    .map((ref) => fake<object>(ref as ServiceRef<object>, {}))
  return new Map([...missing, ...options.fakes ?? []].map((f) => [f.id, f.instance]))
}

function recorder (plugin: string, logged: Rig['logged']): Logger {
  const at = (level: string) => (fields: Record<string, unknown>, message: string): void => {
    logged.push({ level, fields: { plugin, ...fields }, message })
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), fatal: at('fatal') }
}

function memoryTokens (): TokenStore {
  return {
    check: () => undefined, stands: () => true, makers: (id) => [id],
    issue: () => { throw new Error('no tokens in this rig') },
    create: async () => { throw new Error('no tokens in this rig') }, list: () => [], revoked: () => [],
    revoke: async () => false
  }
}
