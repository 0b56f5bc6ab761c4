import { Gossip } from '../gossip.js'
import { hostOf, type Network } from '../host.js'
import { memberKeys } from '../identity/admission.js'
import cluster from '../index.js'
import { createIdentity } from '../../../kernel/boot/identity.js'
import { newKeyPair } from '../../../kernel/net/keys.js'
import { createKernel, type Kernel } from '../../../kernel/plugins/kernel.js'
import { authorities } from '../../../kernel/plugins/kernel-manifest.js'
import type { LightMyRequestResponse } from 'fastify'
import type { Identity } from '../../../kernel/api/identity.js'
import type { Members } from '../members/file.js'
import type { Logger } from '../../../kernel/api/plugin.js'
import type { KernelOptions } from '../../../kernel/plugins/assembly.js'
import { createVitals } from '../../../kernel/state/vitals.js'
import type { VitalsSource } from '../../../kernel/api/vitals.js'
import type { CoreCluster, CoreNode, Owner } from './core-kit.js'

/** A complete kernel on a simulated node of core-kit.ts. */
export interface NodeRig {
  readonly node: CoreNode
  readonly kernel: Kernel
  /** The svc version that this node reports to other nodes. */
  version: string
  get (url: string): Promise<object>
  /** Delivers readings from another node. */
  hear (from: NodeRig, readings: Record<string, unknown>): void
  ask (method: string, url: string, payload?: object, headers?: Record<string, string>):
  Promise<LightMyRequestResponse>
  /** Restarts the node after `kill`, as a new process; the new rig replaces this one. */
  restart (): Promise<NodeRig>
}

export interface RigOptions {
  /** Authorities of the requests; default: all. */
  allow?: readonly string[]
  network?: Partial<Network>
  plugins?: KernelOptions['plugins']
  identity? (node: CoreNode): Identity
  silent? (node: CoreNode): boolean
  /** Additional kernel options for a node, such as plugins with their settings; read at each start. */
  own? (node: CoreNode): Partial<KernelOptions>
}

export function dig<T> (value: unknown, ...path: string[]): T {
  type Fields = Record<string, unknown> | undefined
  return path.reduce<unknown>((inner, key) => (inner as Fields)?.[key], value) as T
}

const reading = {
  memory: {
    ramTotal: { inBytes: 16e9 }, ramAvailable: { inBytes: 8e9 },
    swapTotal: { inBytes: 0 }, swapAvailable: { inBytes: 0 }
  },
  system: { gpuUsage: null, temp: null, sysPower: null, pcpuUsage: 0.5, accelerator: null, accelerators: [] },
  disk: null,
  network: null
}

const machine: VitalsSource = { vitals: async () => reading, load: () => reading.system }

const nothing = (): void => {}
const log: Logger = { debug: nothing, info: nothing, warn: nothing, error: nothing, fatal: nothing }

const limits: KernelOptions['limits'] = {
  connections: 64, connectionsPerAddress: 64, streamsPerToken: 64,
  headersTimeoutMs: 10_000, requestTimeoutMs: 30_000, keepAliveMs: 1000,
  handlerTimeoutMs: 60_000, bodyBytes: 1024 * 1024, streamStallMs: 30_000
}

/** Kernels on all nodes of a cluster; readings reach all nodes immediately. */
export async function kernelsOn (t: Owner, c: CoreCluster, options: RigOptions = {}): Promise<NodeRig[]> {
  const planes = new Map<string, Gossip>()
  const rigs: NodeRig[] = []
  const start = async (node: CoreNode): Promise<NodeRig> => {
    const own = options.own?.(node) ?? {}
    const vitals = createVitals()
    vitals.offer(machine)
    const gossip = new Gossip({
      clock: c.clock, log, enabled: options.silent?.(node) !== true, sample: vitals.vitals,
      publish (body) {
        const peers = node.peers()
        for (const { installId } of peers) {
          planes.get(installId)?.receive(node.installId, structuredClone(body))
        }
        return { peers: peers.length, bytes: 1 }
      }
    })
    planes.set(node.installId, gossip)
    const version = (installId: string): string =>
      rigs.find((rig) => rig.node.installId === installId)?.version ?? '1.0.0'
    const all = { ...kernelOptions(c, node, gossip, options, version), vitals, ...own }
    const kernel = await createKernel({ ...all, plugins: [cluster, ...all.plugins] })
    gossip.start()
    let closed: Promise<void> | undefined
    const close = async (): Promise<void> => {
      gossip.close()
      await (closed ??= kernel.close(0))
    }
    t.teardown(close)
    return rigOf(node, kernel, gossip, async () => {
      await close()
      c.restart(node)
      const next = await start(node)
      rigs.splice(rigs.findIndex((rig) => rig.node === node), 1, next)
      return next
    })
  }
  for (const node of c.nodes) rigs.push(await start(node))
  return rigs
}

function rigOf (
  node: CoreNode, kernel: Kernel, gossip: Gossip, restart: NodeRig['restart']
): NodeRig {
  const ask: NodeRig['ask'] = async (method, url, payload, headers = {}) => await kernel.app.inject({
    method: method as 'GET', url, headers: { host: '127.0.0.1:80', ...headers },
    ...(payload === undefined ? {} : { payload })
  })
  return {
    node, kernel, version: '1.0.0', ask, restart,
    get: async (url) => (await ask('GET', url)).json() as object,
    hear: (from, readings) => { gossip.receive(from.node.installId, { v: 1, readings }) }
  }
}

/** An identity with a fresh key, because members in a simulation have only made-up fingerprints. */
function identityOf (members: Members): Identity {
  const privateKeyPem = newKeyPair('Ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  return createIdentity({ privateKeyPem }, memberKeys(members))
}

function kernelOptions (
  c: CoreCluster, node: CoreNode, gossip: Gossip, { allow, network, identity, plugins = [] }: RigOptions,
  version: (installId: string) => string
): Omit<KernelOptions, 'vitals'> {
  return {
    node: node.node,
    cluster: hostOf({
      node: node.node, cluster: node.core, gossip, identity: identity?.(node) ?? identityOf(node.members),
      network: {
        members: node.members,
        peers: () => node.peers().map((peer) => ({ ...peer, version: version(peer.installId), quorum: '1' })),
        dials: () => [],
        links: () => [],
        copies: () => [],
        quorum: '1',
        addresses: () => ['192.0.2.1:81'],
        joinTokens: { list: () => [], revoke: () => false },
        openOutside: async () => {},
        invite: (ttl) =>
          ({ token: `svcjoin1_${ttl}`, expires: new Date(c.clock.now() + ttl * 1000).toISOString() }),
        bytesPerSecond: () => null,
        ...network
      },
      life: { joined: false, start: () => {}, stop: async () => {} }
    }),
    clock: c.clock, log: () => log, limits,
    plugins, off: [], config: () => ({}), settings: () => undefined, services: new Map(), callLimits: {},
    trustProxy: [], changed: [], warnings: [], strict: true, restart: () => true,
    served: () => ({
      addresses: new Set(['127.0.0.1']), port: 80, secure: false, allowedHosts: [], allowedOrigins: []
    }),
    url: () => `http://${node.name}:80`,
    tokens: {
      check: () => undefined, stands: () => true, makers: (id) => [id], list: () => [], revoked: () => [],
      issue: () => { throw new Error('no tokens here') },
      revoke: async () => false,
      create: async () => { throw new Error('no tokens here') }
    },
    local: new Set(allow ?? Object.keys(authorities)),
    configApi: {
      read: () => ({ revision: '', file: '', entries: [], unset: [], restart_needed: false }),
      write: () => ({ revision: '', undo: () => {} }),
      value: () => undefined, took: () => {}, know: () => {}, pending: () => false, keep: () => {},
      masked: () => ({})
    },
    reload: async () => { throw new Error('no svc.yaml here') }
  }
}
