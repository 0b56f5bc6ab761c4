import { join } from 'node:path'
import {
  homeOption, launched, programIn, readNumber, type Verb, type VerbContext, createClient, ownFingerprint,
  ownToken, type Client, type ClusterState, type VerbError
} from '../../../kernel/cli/index.js'
import {
  describeEnding, devArgs, devEnv, keptNode, type DevNode, startDevNode, isMemberOf, type StartedNode
} from './dev-node.js'
import { devPorts, type Ports } from './dev-ports.js'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Plugin } from '../../../kernel/index.js'

const DEFAULT_NODES = 3
const MAX_NODES = 64
const DEFAULT_BASE_PORT = 52415

export default {
  async run (ctx, [action, node], options) {
    if (action === 'start' && node !== undefined) return await startAgain(ctx, node)
    if (action !== undefined) throw ctx.fail(2, 'expected `svc dev` or `svc dev start NODE`')
    const count = readNumber(ctx, '--nodes', options['nodes'], { min: 1, max: MAX_NODES }) ?? DEFAULT_NODES
    const range = { min: 0, max: 65535 - 2 * count + 1 }
    const base = readNumber(ctx, '--base-port', options['basePort'], range) ?? DEFAULT_BASE_PORT
    const ports = await devPorts(ctx, count, base)
    const homes = ports.map((pair, i) =>
      ({ name: `node${i + 1}`, home: join(ctx.home, 'dev', `node${i + 1}`), ports: pair }))
    const stop = stopping(ctx, count)
    const cluster = startDev(ctx, {
      homes, script: process.argv[1]!, plugins: await ctx.plugins(), env: ctx.io.env, stop: stop.signal
    })
    try {
      const nodes = await cluster.join()
      announce(ctx, nodes, await waitForOneMaster(ctx, cluster, nodes))
      return await watch(ctx, cluster.nodes, stop.signal)
    } catch (error) {
      // A stop signal during the start is not a failure.
      if (stop.signal.aborted && !ctx.signal.aborted) return 0
      throw error
    } finally {
      stop.now()
      await cluster.stopped()
      stop.forget()
    }
  }
} satisfies Verb

/** Starts one node of `svc dev` again, in the foreground. */
async function startAgain (ctx: VerbContext, name: string): Promise<number> {
  const folder = join(ctx.home, 'dev')
  const home = join(folder, name)
  const kept = /^node\d+$/.test(name) ? keptNode(home) : undefined
  if (kept === undefined) {
    throw ctx.fail(3, `\`svc dev\` has no node "${name}"; its nodes are the folders in ${folder}`)
  }
  const { ports, settings } = kept
  return await launched(ctx, {
    args: devArgs(process.argv[1]!, home, ports), env: devEnv(ctx.io.env, settings),
    address: async () => ({ host: '127.0.0.1', port: ports.api })
  })
}

function stopping (
  { signal }: VerbContext, nodes: number
): { signal: AbortSignal, now: () => void, forget: () => void } {
  const stop = new AbortController()
  const now = (): void => { stop.abort() }
  const signals = ['SIGTERM', 'SIGHUP'] as const
  // Each node's launcher adds a listener per stop signal; raise the limit to avoid Node's leak warning.
  process.setMaxListeners(process.getMaxListeners() + nodes)
  for (const name of signals) process.on(name, now)
  signal.addEventListener('abort', now)
  if (signal.aborted) now()
  return {
    signal: stop.signal,
    now,
    forget: () => {
      process.setMaxListeners(process.getMaxListeners() - nodes)
      for (const name of signals) process.off(name, now)
      signal.removeEventListener('abort', now)
    }
  }
}

function announce (
  ctx: VerbContext, nodes: readonly DevNodeUp[], agreed: { masterNodeId: string, sessionId: string }
): void {
  if (ctx.out.json) {
    const shown = nodes.map(({ url, nodeId, pid, home, name }) => ({ url, nodeId, pid, home, name }))
    ctx.out.value({ nodes: shown, ...agreed })
    return
  }
  ctx.out.table(['NAME', 'NODE', 'URL', 'MASTER', 'PID', 'HOME'], nodes.map((node) =>
    [node.name, node.nodeId, node.url, node.nodeId === agreed.masterNodeId ? 'yes' : '-', String(node.pid),
      node.home]))
  const line = `${programIn(ctx.io.cwd)} nodes --url ${nodes[0]!.url}${homeOption(ctx.home)}`
  ctx.out.line(`Session ${agreed.sessionId}. Try: ${line}`)
  ctx.out.line('Press Ctrl-C to stop all nodes.')
}

/** Reports each node that ends. Resolves on a stop signal, or with 1 when all nodes have ended. */
async function watch (ctx: VerbContext, nodes: readonly DevNode[], stop: AbortSignal): Promise<number> {
  const stopRequested = new Promise<void>((resolve) => {
    stop.addEventListener('abort', () => { resolve() })
    if (stop.aborted) resolve()
  })
  const each = nodes.map(async ({ name, over }) => {
    const ending = await over
    if (stop.aborted) return
    ctx.err.line(`${ctx.err.paint('yellow', `${name}: ${describeEnding(ending)}`)}; the others ` +
      `keep running. Restart it: ${programIn(ctx.io.cwd)} dev start ${name}${homeOption(ctx.home)}`)
  })
  const none = Promise.allSettled(each).then(() => 'none' as const)
  const first = await Promise.race([stopRequested, none])
  if (stop.aborted) return ctx.signal.aborted ? 130 : 0
  if (first === 'none') ctx.err.line('all nodes have stopped')
  return 1
}

/** Seconds to wait for the first node to become master, and for all nodes to agree on one. */
const MASTER_SECONDS = 30
const AGREE_SECONDS = 120
/** Time limit in ms for the nodes to stop; nodes still running then end with this process. */
const STOP_LIMIT_MS = 16_000

export interface DevOptions {
  homes: readonly { name: string, home: string, ports: Ports }[]
  script: string, plugins: readonly Plugin[], env: NodeJS.ProcessEnv, stop: AbortSignal
}

export interface DevNodeUp extends StartedNode { name: string }

export type DevCluster = ReturnType<typeof startDev>

/** Starts the first node and the members of its cluster; `join` adds the others. */
export function startDev (ctx: VerbContext, options: DevOptions) {
  const { homes, stop } = options
  const first = homes[0]!
  const begin = (home: typeof first, token: string | null): DevNode => startDevNode({
    ...home,
    token,
    fail: ctx.fail,
    env: options.env,
    settings: {
      name: home.name, port: home.ports.cluster,
      peers: homes.filter((one) => one !== home).map((one) => one.ports.cluster),
      own: ownSettings(options.plugins, home === first ? first.home : null)
    },
    script: options.script,
    stop,
    log: (line) => { ctx.err.line(`${ctx.err.paint('dim', `${home.name} |`)} ${line}`) }
  })
  const order = homes.map((one) => one.name)
  const known = homes.filter((one) => one === first || isMemberOf(first.home, one.home))
  const nodes = known.map((one) => begin(one, null))
  return {
    nodes,
    /** Resolves when all nodes listen. Throws VerbError (1) if a node ends, and join-token errors. */
    async join (): Promise<DevNodeUp[]> {
      const { url } = await nodes[0]!.up
      const client = clientOf(ctx, url, first.home)
      await Promise.all(homes.filter((one) => !known.includes(one)).map(async (one) => {
        const token = await tokenFrom(ctx, client)
        if (!stop.aborted) nodes.push(begin(one, token))
      }))
      nodes.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name))
      return await Promise.all(nodes.map(async ({ up, name }) => ({ ...await up, name })))
    },
    /** Resolves when all nodes have ended, or after STOP_LIMIT_MS. */
    async stopped () {
      const all = Promise.allSettled(nodes.map((node) => node.over))
      await Promise.race([all, sleep(STOP_LIMIT_MS, undefined, { ref: false })])
    }
  }
}

/** The plugins' `devSettings` for the first node; null, which means the default, for all others. */
function ownSettings (plugins: readonly Plugin[], firstHome: string | null): Record<string, string | null> {
  const all = plugins.flatMap(({ manifest }) => Object.entries(manifest.devSettings ?? {}))
  return Object.fromEntries(all.map(([path, value]) =>
    [path, firstHome === null ? null : value?.replace('{home}', firstHome) ?? null]))
}

function clientOf ({ signal }: VerbContext, url: string, home: string): Client {
  return createClient({
    url, token: ownToken(home, url), signal, trust: { home, own: ownFingerprint(home, url) }
  })
}

async function tokenFrom (ctx: VerbContext, client: Client): Promise<string> {
  const ask = { method: 'POST', body: { local: true } } as const
  const { token } = await ctx.retry({ seconds: MASTER_SECONDS, again: ctx.notYet },
    () => client.json<{ token: string }>('/cluster/join-tokens', ask))
  return token
}

/** Waits until all nodes agree. Throws VerbError: 1 if one ends, 4 with the dispute after AGREE_SECONDS. */
export async function waitForOneMaster (
  ctx: VerbContext, cluster: DevCluster, up: readonly StartedNode[]
): Promise<{ masterNodeId: string, sessionId: string }> {
  const clients = up.map(({ url, home }) => clientOf(ctx, url, home))
  const again = (error: VerbError): boolean =>
    cluster.nodes.every((node) => node.ending === undefined) && ctx.notYet(error)
  return await ctx.retry({ seconds: AGREE_SECONDS, again }, async () => {
    const dead = cluster.nodes.find((node) => node.ending !== undefined)
    if (dead !== undefined) {
      throw ctx.fail(1, `${dead.name} stopped: ${describeEnding(dead.ending!)}`)
    }
    const states = await Promise.all(clients.map((client) => client.json<ClusterState>('/state')))
    const problem = disagreement(states)
    if (problem !== null) throw ctx.fail(4, `the nodes do not agree yet: ${problem}`)
    return { masterNodeId: states[0]!.masterNodeId!, sessionId: states[0]!.sessionId! }
  })
}

/** Describes why the nodes are not one cluster yet; null if they are. Pure. */
export function disagreement (states: readonly ClusterState[]): string | null {
  const ids = states.map((state) => state.localNodeId)
  const name = (i: number): string => states[i]!.nodeIdentities[ids[i]!]?.friendlyName ?? ids[i]!
  for (const [i, state] of states.entries()) {
    if (state.masterNodeId === null || state.cluster?.stale === true) return `${name(i)} has no master`
    const missing = ids.filter((id) => state.nodeIdentities[id] === undefined)
    if (missing.length > 0) return `${name(i)} does not know ${missing.join(', ')}`
    const live = state.cluster?.liveNodes ?? 1
    if (live < states.length) return `${name(i)} counts ${live} of ${states.length} nodes as live`
  }
  const differs = (of: (state: ClusterState) => unknown): number =>
    states.findIndex((state) => of(state) !== of(states[0]!))
  const master = differs((state) => state.masterNodeId)
  if (master > 0) return `${name(0)} and ${name(master)} follow different masters`
  const session = differs((state) => state.sessionId)
  return session > 0 ? `${name(0)} and ${name(session)} are in different sessions` : null
}
