import { join } from 'node:path'
import {
  homeOption, launched, programIn, readNumber, type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { waitForOneMaster, startDev, type DevNodeUp } from './dev-cluster.js'
import { describeEnding, devArgs, devEnv, keptNode, type DevNode } from './dev-node.js'
import { devPorts } from './dev-ports.js'

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
