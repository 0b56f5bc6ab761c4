import { fact, quoted, createToolReads, formatDuration, showTime } from '../../../kernel/cli/index.js'
import { joinNodes } from '../../cluster/cli/nodes.js'
import type { ClusterState, Evidence, Fact, Tool } from '../../../kernel/cli/index.js'
import type { NodeRow } from '../../cluster/cli/nodes.js'
import { lostFact, membersOf, nameOf, removals, STATE } from './nodes.js'

interface Election {
  idx: number, at: string, event: Record<string, { masterNodeId?: string, sessionId?: string, term?: number }>
}

const ELECTIONS = '/events?kinds=MasterElected,SessionChanged&limit=20'

/** The master and the time of its election, the present nodes, and the quorum. */
export default {
  async run (ctx) {
    const look = createToolReads(ctx)
    const state = await look.read<ClusterState>('The state of the cluster', '/state')
    if (state === null) return { facts: [], unknown: look.unknown }
    const [members, page, gone] = await Promise.all([
      membersOf(look),
      look.read<{ events: Election[] }>('The time of the last election', ELECTIONS),
      removals(look, ctx.nowMs)
    ])
    const nodes = joinNodes(state, members)
    return {
      facts: [
        ...quorumOf(state, nodes), ...masterOf(state, nodes, page?.events ?? [], ctx.nowMs),
        ...nodesOf(state, nodes), ...partitionOf(state), ...nodes.filter(({ live }) => !live).map(lostFact),
        ...gone
      ].sort((a, b) => RANKS[a.level] - RANKS[b.level]),
      unknown: [...look.unknown, ...sinceOf(state, page?.events)]
    }
  }
} satisfies Tool

const RANKS = { fail: 0, warn: 1, ok: 2, info: 2 } as const

/** The fact that this node has lost the quorum of a cluster that decides by majority. */
function quorumOf ({ cluster }: ClusterState, nodes: readonly NodeRow[]): Fact[] {
  if (cluster?.quorum !== 'lost') return []
  const { liveNodes, knownNodes } = cluster
  const missing = nodes.filter(({ live }) => !live).map(nameOf)
  return [fact('fail', 'no_quorum', `This node reaches ${liveNodes} of ${knownNodes} nodes, itself ` +
    'included, which are too few to decide anything.', {
    about: missing,
    evidence: [STATE],
    remedy: `Start with \`svc up\` what is missing: ${missing.join(', ') || 'the other nodes'}.`
  })]
}

function electionOf ({ sessionId }: ClusterState, elections: readonly Election[]): Election | undefined {
  return elections.findLast(({ event }) => Object.values(event).some((one) => one.sessionId === sessionId))
}

function masterOf (
  state: ClusterState, nodes: readonly NodeRow[], elections: readonly Election[], nowMs: number
): Fact[] {
  const { masterNodeId, cluster } = state
  if (masterNodeId === null) {
    // The fact about the lost quorum already says that there is no master.
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

function partitionOf ({ cluster }: ClusterState): Fact[] {
  if (cluster?.partition !== true) return []
  const missing = cluster.liveNodes < cluster.knownNodes
  return [fact(missing ? 'warn' : 'fail', 'partition', missing
    ? 'Not every node sees every other: a node is down, or the network between them is cut.'
    : 'Not every node sees every other: the network between them is cut.', {
    evidence: [STATE],
    remedy: 'See which address does not answer and why with `svc doctor`; then mend the network there.'
  })]
}
