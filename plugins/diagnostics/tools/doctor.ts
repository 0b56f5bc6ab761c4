import { factOf, isVerbError } from '../../../kernel/cli/index.js'
import { clusterChecks } from '../checks/cluster.js'
import { settledState } from '../checks/split.js'
import type { ClusterState, Evidence, Fact, Tool, ToolContext } from '../../../kernel/cli/index.js'

/** Sort order of levels, most severe first. */
const RANKS: Readonly<Record<Fact['level'], number>> = { fail: 0, warn: 1, info: 2, ok: 3 }

/** Tool that runs all checks of `svc doctor` for a cluster. */
export default {
  async run ({ look, declared }) {
    const read = settledState(() => look<ClusterState>('/state'))
    const [state, { manifests }] = await Promise.all([read, declared()])
    if (isVerbError(state)) return { facts: [], unknown: [`The state could not be read: ${state.message}`] }
    const { checks, unknown } = await clusterChecks({ state, look, manifests, version: null })
    // That the caller may not read the member list is no fault of the cluster; `unknown` mentions it.
    const facts = checks.filter(({ code }) => code !== 'members_hidden').map(factOf)
      .sort((a, b) => RANKS[a.level] - RANKS[b.level])
    return { facts: await withLosses(look, facts), unknown }
  }
} satisfies Tool

interface TimedOut { idx: number, at: string, event: { NodeTimedOut?: { nodeId: string } } }

/** Adds the events about lost nodes, if the caller may read them. */
async function withLosses (look: ToolContext['look'], facts: readonly Fact[]): Promise<Fact[]> {
  if (!facts.some(({ code }) => code === 'node_lost')) return [...facts]
  const answer = await look<{ events: TimedOut[] }>('/events?kinds=NodeTimedOut&limit=100')
  const events = isVerbError(answer) ? [] : answer.events
  return facts.map((fact) => {
    const ids = fact.evidence.flatMap((one) => one.kind === 'node' ? one.nodeId : [])
    const lost = events.findLast(({ event }) => ids.includes(event.NodeTimedOut?.nodeId ?? ''))
    if (fact.code !== 'node_lost' || lost === undefined) return fact
    const evidence: Evidence = { kind: 'event', idx: lost.idx, at: lost.at, name: 'NodeTimedOut' }
    return { ...fact, evidence: [...fact.evidence, evidence] }
  })
}
