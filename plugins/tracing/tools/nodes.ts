import { fact, quoted } from '../../../kernel/cli/index.js'
import { capacityRemedy } from '../../runners/service.js'
import type { ClusterState, Evidence, Fact, Finding } from '../../../kernel/cli/index.js'

/** A link counts as slow above this round trip time in ms or below this rate in bytes per second. */
const RTT_MS = 100
const RATE = 4 * 1024 * 1024
/** p99 delay in ms above which an event loop counts as late. */
const LATE_MS = 250
/** Processor load (0 to 1) above which a node counts as busy. */
const BUSY = 0.9

/** The fields of GET /v1/diagnostics/cluster that show waiting requests. */
interface Runner {
  modelId: string, runnerId: string, slots: number, waitingTasks: number, inProgressTasks: string[]
}

export interface Cluster {
  nodes: {
    nodeId: string, name: string, live: boolean, error: { message: string } | string | null
    diagnostics: {
      resources: { eventLoopDelayMs: { p50: number, p99: number }, dataPlane: { callsWaiting: number } }
      supervisorRunners: Runner[]
    } | null
  }[]
}

/** Finds causes of slow requests: queues, late event loops, busy processors, slow links. Pure. */
export function nodesOf (state: ClusterState | null, cluster: Cluster | null, model?: string): Finding {
  const nodes = cluster?.nodes ?? []
  const silent = nodes.filter(({ live, diagnostics }) => live && diagnostics === null)
    .map(({ name }) => `${quoted(name, 80)} did not report its queues in time.`)
  return {
    facts: [
      ...nodes.flatMap((node) => queues(node, model)),
      ...state === null ? [] : slowLinks(state),
      ...nodes.flatMap(loop),
      ...state === null ? [] : busy(state)
    ],
    unknown: silent
  }
}

type Node = Cluster['nodes'][number]

const aboutNode = ({ nodeId, name }: Pick<Node, 'nodeId' | 'name'>, about: string[] = []):
Pick<Fact, 'about' | 'evidence'> => ({
  about: [quoted(name, 80), ...about], evidence: [{ kind: 'node', nodeId, name: quoted(name, 80) }]
})

function queues (node: Node, model?: string): Fact[] {
  const runners = node.diagnostics?.supervisorRunners ?? []
  return runners.filter(({ modelId, waitingTasks }) =>
    waitingTasks > 0 && (model === undefined || modelId === model)).map(({ modelId, slots, waitingTasks }) =>
    fact('warn', 'model_busy', `${quoted(modelId)} is busy on ${quoted(node.name, 80)}: its runner serves ` +
    `${slots} at once, and ${waitingTasks} more wait.`,
    { ...aboutNode(node, [quoted(modelId)]), remedy: capacityRemedy(quoted(modelId)) }))
}

function loop (node: Node): Fact[] {
  const { p99 = 0 } = node.diagnostics?.resources.eventLoopDelayMs ?? {}
  if (p99 <= LATE_MS) return []
  const name = quoted(node.name, 80)
  return [fact('warn', 'loop_late', `The event loop of ${name} was ${Math.round(p99)} ms late ` +
    '(p99 since the start), so the node responds slowly.', {
    ...aboutNode(node),
    remedy: 'Check the machine for other load; `svc doctor` shows the problems of the node.'
  })]
}

const nameIn = ({ nodeIdentities }: ClusterState, nodeId: string): string =>
  quoted(nodeIdentities[nodeId]?.friendlyName ?? nodeId, 80)

function busy (state: ClusterState): Fact[] {
  return Object.entries(state.nodeSystem ?? {}).flatMap(([nodeId, system]) => {
    const usage = system?.pcpuUsage ?? 0
    const name = nameIn(state, nodeId)
    return usage < BUSY ? [] : [fact('warn', 'cpu_busy',
      `The processors of ${name} are ${Math.round(usage * 100)} % busy.`, {
        ...aboutNode({ nodeId, name }),
        remedy: `See what runs on ${name} with \`svc ps\`; stop other load on that machine.`
      })]
  })
}

function slowLinks (state: ClusterState): Fact[] {
  return Object.entries(state.topology?.connections ?? {}).flatMap(([from, sinks]) =>
    Object.entries(sinks).flatMap(([to, links]) => {
      const rtt = Math.min(...links.map(({ rttMs }) => rttMs ?? Infinity))
      const rate = Math.max(...links.map(({ bytesPerSecond }) => bytesPerSecond ?? -1))
      const slow = [
        rtt > RTT_MS && Number.isFinite(rtt) ? `${Math.round(rtt)} ms round trip` : null,
        rate >= 0 && rate < RATE ? `${(rate / 1024 / 1024).toFixed(1)} MiB/s` : null
      ].filter((one) => one !== null)
      if (slow.length === 0) return []
      const [a, b] = [nameIn(state, from), nameIn(state, to)]
      const evidence: Evidence[] = [from, to].map((nodeId, i) => ({ kind: 'node', nodeId, name: [a, b][i]! }))
      return [fact('warn', 'link_slow', `The link from ${a} to ${b} is slow: ${slow.join(', ')}.`, {
        about: [a, b], evidence,
        remedy: `Fix the network between ${a} and ${b}; \`svc doctor\` shows the connection to each member.`
      })]
    }))
}
