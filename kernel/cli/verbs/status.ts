import { clusterWarnings, joinNodes, readMembers, settledState } from '../cluster-view.js'
import { contributed, homeManifests, lookOf } from '../contributed.js'
import { CliError } from '../errors.js'
import { notYet, retryFor } from '../waiting.js'
import type { StatusLines } from '../check.js'
import type { NodeRow, State, Warning } from '../cluster-view.js'
import type { Verb, VerbContext } from '../verb.js'

interface Check { name: string, ok: boolean, detail: string }

export default {
  async run (ctx) {
    if (ctx.wait !== undefined) await untilReady(ctx, ctx.wait)
    const [state, members, checks] = await Promise.all([
      settledState(() => ctx.client.json<State>('/state'), ctx.signal), readMembers(ctx.client),
      readiness(ctx)
    ])
    const parts = await contributed<StatusLines>(await homeManifests(ctx), 'status',
      { state, look: lookOf(ctx.client) })
    const nodes = joinNodes(state, members)
    const live = nodes.filter((node) => node.live)
    const warnings = [...clusterWarnings(state, nodes), ...live.flatMap(healthWarnings)]
    if (ctx.out.json) {
      const { sessionId = null, masterNodeId, cluster } = state
      const whole = { sessionId, masterNodeId, ...cluster }
      const more = Object.assign({}, ...parts.map(({ json }) => json)) as object
      ctx.out.value({ nodes, cluster: whole, ...more, warnings, checks })
      return
    }
    ctx.out.line(headline(state, nodes))
    for (const line of parts.flatMap(({ above }) => above)) ctx.out.line(line)
    ctx.out.table(['NAME', 'HEALTH', 'MASTER', 'SERVES', 'VERSION', 'URL', 'NODE'], nodes.map((n) =>
      [n.name ?? '-', n.live ? n.health.level : 'lost', n.isMaster ? 'yes' : '-',
        n.capabilities.join(' ') || '-', n.version ?? '-', n.url ?? (n.isLocal ? ctx.client.url : '-'),
        n.nodeId ?? '-']))
    for (const line of parts.flatMap(({ below }) => below)) ctx.out.line(line)
    for (const { node, code, message, remedy } of warnings) {
      ctx.out.line(`${node ?? 'cluster'}: ${message} [${code}]\n  ${remedy}`)
    }
    for (const { name, ok, detail } of checks) if (!ok) ctx.out.line(`not ready: ${name}: ${detail}`)
  }
} satisfies Verb

/** Without the session id, which people do not need and `--json` has. */
function headline ({ masterNodeId, cluster }: State, nodes: readonly NodeRow[]): string {
  const master = nodes.find((node) => node.isMaster)?.name ?? masterNodeId ?? 'none'
  const live = cluster?.liveNodes ?? nodes.filter((node) => node.live).length
  const known = cluster?.knownNodes ?? nodes.length
  const term = cluster === undefined ? '' : `, term ${cluster.term}, quorum ${cluster.quorum}`
  return `${live} of ${known} node${known === 1 ? '' : 's'} live, master ${master}${term}`
}

function healthWarnings ({ name, health }: NodeRow): Warning[] {
  return health.reasons.map(({ code, message, remediation }) =>
    ({ node: name, code, message, remedy: remediation }))
}

/** The checks of GET /readyz, ready or not. */
async function readiness (ctx: VerbContext): Promise<Check[]> {
  try {
    return (await ctx.client.json<{ checks: Check[] }>('/readyz')).checks
  } catch (error) {
    if (!(error instanceof CliError) || error.status !== 503) throw error
    return (error.api?.details?.['checks'] ?? []) as Check[]
  }
}

async function untilReady (ctx: VerbContext, seconds: number): Promise<void> {
  await retryFor({
    seconds,
    signal: ctx.signal,
    again: notYet,
    onWait: (error) => { ctx.err.update(`waiting: ${error.message.split('\n')[0]!}`) }
  }, () => ctx.client.json('/readyz'))
  ctx.err.end()
}
