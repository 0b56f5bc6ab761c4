import {
  fact, nearest, quoted, createToolReads, showBytes, type ClusterState, type Fact, type Tool
} from '../../../kernel/cli/index.js'
import { joinNodes, type NodeRow } from '../../cluster/cli/nodes.js'
import { evidenceOf, lostFact, membersOf, nameOf, STATE } from './nodes.js'

/** The parts of GET /state about one node and what runs there. */
interface State extends ClusterState {
  nodeDisk?: Record<string, { total: { inBytes: number }, available: { inBytes: number } } | null>
  instances?: Record<string, Record<string, {
    shardAssignments?: { modelId: string, nodeToRunner: Record<string, string> }
  }>>
  runners?: Record<string, object>
}

/** The state of one node: machine, health, instances, links. */
export default {
  async run (ctx, { node: asked }) {
    const look = createToolReads(ctx)
    const state = await look.read<State>('The state of the cluster', '/state')
    if (state === null) return { facts: [], unknown: look.unknown }
    const nodes = joinNodes(state, await membersOf(look))
    const row = find(nodes, asked)
    const facts = row === undefined
      ? [stranger(nodes, asked)]
      : [...presence(row), ...more(state, nodes, row)]
    return { facts, unknown: look.unknown }
  }
} satisfies Tool<{ node: string }>

/** The node with that name or id; for `local` the node that receives the question. */
function find (nodes: readonly NodeRow[], asked: string): NodeRow | undefined {
  const wanted = asked.toLowerCase()
  return nodes.find(({ name, nodeId, installId }) =>
    [name, nodeId, installId].some((one) => one?.toLowerCase() === wanted)) ??
    nodes.find(({ isLocal }) => isLocal && wanted === 'local')
}

function stranger (nodes: readonly NodeRow[], asked: string): Fact {
  const names = nodes.map(nameOf)
  const near = nearest(asked, names)
  return fact('info', 'node_unknown', `No node is called ${quoted(asked, 80)}` +
    `${near === undefined ? '' : `; ${near} is`}. There are ${names.join(', ')}.`,
  { about: names, evidence: [STATE] })
}

function presence (row: NodeRow): Fact[] {
  const { isMaster, isLocal, live, version } = row
  const name = nameOf(row)
  if (!live) return [lostFact(row)]
  const what = [isMaster ? 'the master' : null, isLocal ? 'the node that is asked' : null]
    .filter((one) => one !== null)
  return [fact('ok', 'node_live',
    `${name} is live${version === null ? '' : `, version ${quoted(version, 40)}`}` +
    `${what.length === 0 ? '' : `, ${what.join(' and ')}`}.`,
    { about: [name], evidence: evidenceOf(row) })]
}

/** More facts about a node; if the node is lost, they are the last known ones. */
function more (state: State, nodes: readonly NodeRow[], row: NodeRow): Fact[] {
  const { nodeId } = row
  if (nodeId === null) return []
  const name = nameOf(row)
  const info = (code: string, text: string, about: string[] = []): Fact => fact('info', code, text,
    { about: [name, ...about], evidence: evidenceOf(row) })
  const then = row.live ? '' : ', when it was last heard'
  return [
    ...machine(state, row).map((text) => info('machine', `${name} has ${text}${then}.`)),
    ...runs(state, nodeId).map(({ modelId, instanceId, status }) =>
      info('runs', `${modelId} is placed on ${name} (${status}).`, [modelId, instanceId])),
    ...runs(state, nodeId).length === 0 ? [info('runs_nothing', `No model is placed on ${name}.`)] : [],
    ...row.live ? links(state, nodes, nodeId).map((text) => info('links', `${name} is ${text}.`)) : []
  ]
}

/** Memory, disk and load as the machine reports them. */
function machine ({ nodeDisk, nodeSystem }: State, row: NodeRow): string[] {
  const { nodeId, memoryTotalBytes: total, memoryAvailableBytes: free } = row
  const disk = nodeDisk?.[nodeId!]
  const { pcpuUsage = null, gpuUsage = null } = nodeSystem?.[nodeId!] ?? {}
  const percent = (part: number): string => `${Math.round(part * 100)} %`
  const parts = [
    total === null || free === null ? null : `${showBytes(free)} of ${showBytes(total)} of memory free`,
    disk == null ? null
      : `${showBytes(disk.available.inBytes)} of ${showBytes(disk.total.inBytes)} of disk free`,
    pcpuUsage === null ? null : `its processors ${percent(pcpuUsage)} busy`,
    gpuUsage === null ? null : `its accelerator ${percent(gpuUsage)} busy`
  ].filter((one) => one !== null)
  return parts.length === 0 ? [] : [parts.join(', ')]
}

function runs ({ instances = {}, runners = {} }: State, nodeId: string):
{ modelId: string, instanceId: string, status: string }[] {
  return Object.entries(instances).flatMap(([instanceId, tagged]) => {
    const { modelId, nodeToRunner } = Object.values(tagged)[0]?.shardAssignments ?? {}
    const runner = nodeToRunner?.[nodeId]
    if (modelId === undefined || runner === undefined) return []
    const status = Object.keys(runners[runner] ?? {})[0] ?? 'no runner yet'
    return [{ modelId: quoted(modelId), instanceId, status: quoted(status, 40) }]
  }).slice(0, 20)
}

function links ({ topology }: State, nodes: readonly NodeRow[], nodeId: string): string[] {
  const ways = Object.entries(topology?.connections?.[nodeId] ?? {}).flatMap(([to, all]) => {
    const rtt = all.map(({ rttMs }) => rttMs).filter((ms) => ms !== null)
    const other = nodes.find((node) => node.nodeId === to)
    if (other === undefined || rtt.length === 0) return []
    return [`${Math.min(...rtt).toFixed(1)} ms from ${nameOf(other)}`]
  })
  return ways.length === 0 ? [] : [ways.join(', ')]
}
