import { once } from 'node:events'
import http from 'node:http'
import { HttpListener } from '../../../kernel/http/http-listener.js'
import { createStreamCount, OpenRequests } from '../../../kernel/http/open-requests.js'
import { createTable } from '../../../kernel/http/server.js'
import { mount } from '../../../kernel/http/mount.js'
import { setMember } from '../../../kernel/http/forwarded.js'
import { CredentialWatch } from '../../../kernel/http/credential-watch.js'
import { kernelError } from '../../../kernel/api/errors.js'
import { memberRequest } from '../../../kernel/test/member-request.js'
import { routes } from '../routes.js'
import { bench, NODE, type Bench } from './kit.js'
import type { RouteRequest } from '../../../kernel/index.js'
import type { AddressInfo, Socket } from 'node:net'
import type { CapabilitiesOptions } from '../capabilities.js'
import type { Cluster, NodeView } from '../../../kernel/api/services.js'
import type { HttpLimits } from '../../../kernel/http/limits.js'

export const OTHER = { nodeId: 'node-2', installId: '00000000-0000-4000-8000-000000000002' }
/** A known member that is down. */
export const GONE = { nodeId: 'node-3', installId: '00000000-0000-4000-8000-000000000003' }

const LIMITS: HttpLimits = {
  connections: 1024, connectionsPerAddress: 1024, streamsPerToken: 1024, headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000, keepAliveMs: 15_000, handlerTimeoutMs: 60_000, bodyBytes: 256 * 1024,
  streamStallMs: 30_000
}

export interface Passed { to: string, method: string, path: string, body: Record<string, unknown> }

/** A fake response to a member's request. */
export type Stand = (request: http.IncomingMessage, response: http.ServerResponse) => void

/** Two nodes whose capability layers communicate over real sockets. */
export interface Pair {
  here: Bench
  there: Bench
  passed: Passed[]
  /** Paths with a response in progress or complete. */
  answered: string[]
  /** Sockets accepted by the other node's member listener. */
  sockets: Set<Socket>
  live: Map<string, boolean>
  /** Names of this node, the other node and an unreachable node. */
  names: string[]
  /** Replaces responses from the other node: `is` replaces all, `call` only those to calls. */
  stand: { is?: Stand | null, call?: Stand | null }
}

type Teardown = { teardown: (fn: () => unknown) => void }

/** Connects two nodes, of which `here` calls and `there` serves. */
export async function pair (
  t: Teardown, options: { here?: Partial<CapabilitiesOptions>, there?: Partial<CapabilitiesOptions> } = {}
): Promise<Pair> {
  const ports = new Map<string, number>()
  const passed: Passed[] = []
  const answered: string[] = []
  const sockets: Pair['sockets'] = new Set()
  const live = new Map([[NODE.installId, true], [OTHER.installId, true], [GONE.installId, false]])
  const stand: Pair['stand'] = {}
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => { agent.destroy() })
  const names = ['alpha', 'beta', 'gamma']
  const clusterOf = (self: typeof NODE): Cluster => fakeCluster(self, names, live, async (to, request) => {
    passed.push({ to, method: request.method, path: request.path,
      body: (request.body ?? {}) as Record<string, unknown> })
    const port = ports.get(to)
    if (port === undefined) throw kernelError('unreachable')
    const answer = await memberRequest({ host: '127.0.0.1', port, agent }, request)
    answered.push(request.path)
    return answer
  })
  const here = bench({ cluster: clusterOf(NODE), ...options.here })
  const there = bench({ node: OTHER, cluster: clusterOf(OTHER), ...options.there })
  ports.set(NODE.installId, await serve(t, here, OTHER.installId, new Set(), {}))
  ports.set(OTHER.installId, await serve(t, there, NODE.installId, sockets, stand))
  return { here, there, passed, answered, sockets, live, names, stand }
}

function fakeCluster (
  self: typeof NODE, names: readonly string[], live: ReadonlyMap<string, boolean>,
  request: Cluster['request']
): Cluster {
  const nodes = (): NodeView[] => [NODE, OTHER, GONE].map((node, at) => ({
    ...node, name: names[at]!, self: node.nodeId === self.nodeId, live: live.get(node.installId) === true,
    master: at === 0, apiUrl: at === 1 ? 'http://192.0.2.2:8080' : null
  }))
  return {
    self,
    masterInstallId: NODE.installId,
    nodes,
    resolve: (ref) => {
      const found = nodes().filter((n) => ref === 'local' ? n.self
        : [n.nodeId, n.installId, n.name].includes(ref))
      return found.length === 1 ? found[0] : undefined
    },
    channel: () => { throw new Error('not used here') },
    onPeers: () => () => {},
    lives: () => {},
    admittedBy: () => [],
    request
  } as Cluster
}

/** The node's routes behind a listener that treats every socket as a member's; resolves to its port. */
async function serve (
  t: Teardown, node: Bench, member: string, sockets: Set<Socket>, stand: Pair['stand']
): Promise<number> {
  const log = { debug () {}, info () {}, warn () {}, error () {}, fatal () {} }
  const app = createTable({
    front: new HttpListener(LIMITS), log, limits: LIMITS, trustProxy: [], methodsAt: () => [],
    rewrite: (_method, url) => url, vouchedBy: (_member, caller) => caller,
    served: () => ({ addresses: new Set(), port: 0, secure: false, allowedHosts: [], allowedOrigins: [] }),
    authenticate: () => { throw new Error('nobody else is served here') }
  })
  const mounting = {
    clock: node.clock, log, limits: LIMITS, draining: () => false, work: new OpenRequests(),
    credentials: new CredentialWatch(node.clock, () => true), streams: createStreamCount(1024)
  }
  for (const name of ['list', 'call', 'stream', 'cancel'] as const) {
    const handler = node.capabilities.handlers[name] as (request: RouteRequest) => unknown
    const route = { owner: 'capabilities', name, decl: routes[name], handler }
    mount(app, route, mounting)
  }
  await app.ready()
  const listener = http.createServer((request, response) => {
    const own = stand.is ?? (request.method === 'POST' ? stand.call : null)
    if (own != null) own(request, response)
    else app.routing(request, response)
  })
  listener.on('connection', (socket) => {
    setMember(socket, member)
    sockets.add(socket)
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(async () => {
    listener.closeAllConnections()
    listener.close()
    await app.close()
  })
  return (listener.address() as AddressInfo).port
}

export function cut (nodes: Pair): void {
  for (const socket of nodes.sockets) socket.resetAndDestroy()
}

export const callsOf = (nodes: Pair): Passed[] => nodes.passed.filter((p) => p.method === 'POST')

export const at = (body: Record<string, unknown>, more: object = {}): Record<string, unknown> =>
  ({ ...body, target_node: OTHER.nodeId, ...more })
