import { fact, quoted, createToolReads, formatDuration, showTime } from '../../../kernel/cli/index.js'
import { joinNodes } from '../../cluster/cli/nodes.js'
import type { ClusterState, Evidence, Fact, Tool } from '../../../kernel/cli/index.js'
import type { NodeRow } from '../../cluster/cli/nodes.js'
import { lostFact, membersOf, nameOf, STATE } from './nodes.js'

interface Election {
  idx: number, at: string, event: Record<string, { masterNodeId?: string, sessionId?: string, term?: number }>
}

const ELECTIONS = '/events?kinds=MasterElected,SessionChanged&limit=20'

/** The master and the time of its election, and the nodes; the checks report what is wrong with them. */
export default {
  async run (ctx) {
    const look = createToolReads(ctx)
    const state = await look.read<ClusterState>('The state of the cluster', '/state')
    if (state === null) return { facts: [], unknown: look.unknown }
    const [members, page] = await Promise.all([
      membersOf(look), look.read<{ events: Election[] }>('The time of the last election', ELECTIONS)
    ])
    const nodes = joinNodes(state, members)
    const facts = [
      ...masterOf(state, nodes, page?.events ?? [], ctx.nowMs), ...nodesOf(state, nodes),
      ...nodes.filter(({ live }) => !live).map(lostFact)
    ]
    return { facts, unknown: [...look.unknown, ...sinceOf(state, page?.events)] }
  }
} satisfies Tool

function electionOf ({ sessionId }: ClusterState, elections: readonly Election[]): Election | undefined {
  return elections.findLast(({ event }) => Object.values(event).some((one) => one.sessionId === sessionId))
}

function masterOf (
  state: ClusterState, nodes: readonly NodeRow[], elections: readonly Election[], nowMs: number
): Fact[] {
  const { masterNodeId, cluster } = state
  if (masterNodeId === null) {
    // Without a quorum there is no master; the checks report that.
    if (cluster?.quorum === 'lost') return []
    return [fact('fail', 'no_master', 'No master is known at the moment.', {
      evidence: [STATE],
      remedy: 'It settles within seconds; if it does not, `svc doctor` shows what is in the way.'
    })]
  }
  const master = nodes.find(({ isMaster }) => isMaster)
  const name = master === undefined ? quoted(masterNodeId) : nameOf(master)
  const about = [name]
  const here = master?.isLocal === true ? ', the node that is asked' : ''
  const term = cluster === undefined ? '' : `, in term ${cluster.term}`
  const node: Evidence = { kind: 'node', nodeId: masterNodeId, name }
  const elected = electionOf(state, elections)
  if (elected === undefined) {
    return [fact('ok', 'master', `${name} is master${term}${here}.`, { about, evidence: [STATE, node] })]
  }
  const { idx, at, event } = elected
  const ms = Date.parse(at)
  return [fact('ok', 'master', `${name} is master since ${showTime(ms, nowMs)} ` +
    `(for ${formatDuration((nowMs - ms) / 1000)})${term}${here}.`,
  { about, evidence: [{ kind: 'event', idx, at, name: Object.keys(event)[0]! }, node] })]
}

/** The time of the election, or a note that it was not recorded. */
function sinceOf (state: ClusterState, elections?: readonly Election[]): string[] {
  if (state.masterNodeId === null || elections === undefined) return []
  return electionOf(state, elections) === undefined
    ? ['Since when it is master is not known: its election is not in the event log any more.']
    : []
}

function nodesOf ({ cluster, sessionId }: ClusterState, nodes: readonly NodeRow[]): Fact[] {
  const live = nodes.filter((node) => node.live)
  const known = Math.max(cluster?.knownNodes ?? 0, nodes.length)
  const names = live.map(nameOf)
  return [
    fact(live.length < known ? 'info' : 'ok', 'nodes',
      `${live.length} of ${known} ${known === 1 ? 'node is' : 'nodes are'} live: ${names.join(', ')}.`,
      { about: names, evidence: [STATE] }),
    ...sessionId == null || cluster === undefined ? [] : [fact('info', 'session',
      `This session has term ${cluster.term}; quorum is ${cluster.quorum}.`,
      { about: [sessionId], evidence: [STATE] })]
  ]
}
