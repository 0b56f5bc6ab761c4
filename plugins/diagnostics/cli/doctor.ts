import { multicastProblem, systemClock } from '../../../kernel/index.js'
import {
  count, fail, homeManifests, homeOption, isLoopbackUrl, isVerbError, createGet, ok, version
} from '../../../kernel/cli/index.js'
import { CLUSTER_OFF, checkDiscovery, clusterChecks } from '../checks/cluster.js'
import { checkDisk, checkHome, checkNode, checkPorts } from '../checks/host.js'
import { settledState } from '../checks/split.js'
import type { Check, ClusterState, Verb, VerbContext, VerbError } from '../../../kernel/cli/index.js'

export default {
  async run (ctx) {
    const local = isLoopbackUrl(ctx.client.url)
    const checks = [checkNode(process.versions.node),
      ...(local ? [await checkHome(ctx.home), checkDisk(ctx.home)] : []),
      ...await checkCluster(ctx, local)]
    const failed = checks.filter((check) => check.result === 'fail').length
    if (ctx.out.json) ctx.out.value({ checks })
    else show(ctx, checks, failed)
    return failed === 0 ? 0 : 1
  }
} satisfies Verb

const colours = { ok: 'green', warn: 'yellow', fail: 'red' } as const

function show ({ out, io, err }: VerbContext, checks: readonly Check[], failed: number): void {
  // `err.paint` checks whether stderr is a terminal, but the results go to stdout, so check that too.
  const paint = io.stdout.isTTY === true ? err.paint : (_: string, text: string): string => text
  const width = Math.max(...checks.map((check) => check.name.length))
  for (const { name, result, message, remedy } of checks) {
    out.line(`${paint(colours[result], result.padEnd(4))}  ${name.padEnd(width)}  ${message}`)
    if (remedy !== null) out.line(`      ${remedy}`)
  }
  const warned = checks.filter((check) => check.result === 'warn').length
  out.line(`${count(checks.length, 'check')}: ${count(failed, 'failure')}, ${count(warned, 'warning')}`)
}

/** Checks that the node answers; if it does not, reports the reason and how to start it. */
async function checkCluster (ctx: VerbContext, local: boolean): Promise<Check[]> {
  const began = systemClock.mono()
  let state: ClusterState
  try {
    state = await settledState(() => ctx.client.json<ClusterState>('/state'), ctx.signal)
  } catch (error) {
    if (!isVerbError(error) || ctx.signal.aborted) throw error
    return await withoutState(ctx, local, error)
  }
  const took = `answered in ${Math.round(systemClock.mono() - began)} ms`
  const key = (await ctx.client.agent())?.fingerprint
  const answered = ok('answers',
    `${ctx.client.url} ${took}${key === undefined ? '' : `; the fingerprint of its key is ${key}`}`)
  const manifests = await homeManifests(ctx)
  const { checks } =
    await clusterChecks({ state, look: createGet(ctx.client), manifests, version: version() })
  return [
    answered,
    ...checks,
    ...checks.some(({ code }) => code === CLUSTER_OFF) ? [] : await discovery(ctx, local)
  ]
}

async function withoutState (ctx: VerbContext, local: boolean, error: VerbError): Promise<Check[]> {
  const [said] = error.message.split('\n')
  if (error.status === undefined) {
    const node = fail('answers', `no node answers at ${ctx.client.url}`,
      local
        ? `Start one: svc up${homeOption(ctx.home)}`
        : 'Start it there with `svc up`, or choose another with --url.')
    return local ? [node, await checkPorts(portsOf(ctx.client.url))] : [node]
  }
  const remedy = error.exitCode === 5
    ? 'Send a token (--token, SVC_TOKEN); `svc token create` on that host creates one.'
    : 'Its log has the reason; `svc status` tries again.'
  return [fail('answers', said!, remedy)]
}

/** The API port, and the next port, on which the node listens for other members. */
function portsOf (url: string): number[] {
  const port = Number(new URL(url).port)
  return port > 0 ? [port, port + 1].filter((one) => one <= 65535) : []
}

/** Checks the node's discovery setting, and multicast on this machine if the node runs here. */
async function discovery ({ client }: VerbContext, local: boolean): Promise<Check[]> {
  const config = await createGet(client)<{ entries: { path: string, value: unknown }[] }>('/config')
  const on = isVerbError(config)
    ? undefined
    : config.entries.find(({ path }) => path === 'cluster.discovery')?.value
  if (!local || on === false) return typeof on === 'boolean' ? [checkDiscovery(on, null)] : []
  return [checkDiscovery(on === true ? true : null, await multicastProblem(systemClock))]
}
