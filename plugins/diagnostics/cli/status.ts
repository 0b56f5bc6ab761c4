import {
  homeManifests, isVerbError, createGet, type ClusterState, type StatusLines, type Verb, type VerbContext
} from '../../../kernel/cli/index.js'
import { joinNodes, readMembers, type NodeRow } from '../../cluster/cli/nodes.js'
import { checkMaster, checksIn, contributed, lostNodeChecks, type ReadyCheck } from '../checks/cluster.js'
import { settledState } from '../checks/split.js'

export default {
  async run (ctx) {
    if (ctx.wait !== undefined) await untilReady(ctx, ctx.wait)
    const [state, members, checks] = await Promise.all([
      settledState(() => ctx.client.json<ClusterState>('/state'), ctx.signal), readMembers(ctx.client),
      readiness(ctx)
    ])
    const parts = await contributed<StatusLines>(await homeManifests(ctx), 'status',
      { state, look: createGet(ctx.client) })
    const nodes = joinNodes(state, members)
    const live = nodes.filter((node) => node.live)
    const warnings = [...failedChecks(state, nodes), ...live.flatMap(healthWarnings)]
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

/** First line of output; leaves out the session id, which only `--json` shows. */
function headline ({ masterNodeId, cluster }: ClusterState, nodes: readonly NodeRow[]): string {
  const master = nodes.find((node) => node.isMaster)?.name ?? masterNodeId ?? 'none'
  const live = cluster?.liveNodes ?? nodes.filter((node) => node.live).length
  const known = cluster?.knownNodes ?? nodes.length
  const term = cluster === undefined ? '' : `, term ${cluster.term}, quorum ${cluster.quorum}`
  return `${live} of ${known} node${known === 1 ? '' : 's'} live, master ${master}${term}`
}

interface Warning { node: string | null, code: string | undefined, message: string, remedy: string | null }

function failedChecks (state: ClusterState, nodes: readonly NodeRow[]): Warning[] {
  // A removed node sees the others as lost; its health already reports the cause.
  if (state.nodeHealth[state.localNodeId]?.reasons.some(({ code }) => code === 'node_removed')) return []
  const quorumLost = state.cluster?.quorum === 'lost'
  return [...checkMaster(state, nodes), ...lostNodeChecks(nodes)]
    .filter(({ name, result }) => result !== 'ok' && !(quorumLost && name === 'master'))
    .map(({ about, code, message, remedy }) => ({ node: about?.[0] ?? null, code, message, remedy }))
}

function healthWarnings ({ name, health }: NodeRow): Warning[] {
  return health.reasons.map(({ code, message, remediation }) =>
    ({ node: name, code, message, remedy: remediation }))
}

async function readiness ({ client }: VerbContext): Promise<ReadyCheck[]> {
  const answer = await createGet(client)<{ checks: ReadyCheck[] }>('/readyz')
  if (isVerbError(answer) && answer.status !== 503) throw answer
  return isVerbError(answer) ? checksIn(answer) : answer.checks
}

async function untilReady (ctx: VerbContext, seconds: number): Promise<void> {
  await ctx.retry({
    seconds,
    again: (error) => ctx.notYet(error),
    onWait: (error) => { ctx.err.update(`waiting: ${error.message.split('\n')[0]!}`) }
  }, () => ctx.client.json('/readyz'))
  ctx.err.end()
}
