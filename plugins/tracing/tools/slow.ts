import { fact, quoted, createToolReads, showMs } from '../../../kernel/cli/index.js'
import type { ClusterState, Evidence, Fact, ToolReads, Tool, Finding } from '../../../kernel/cli/index.js'
import type { ListedTrace } from '../peers.js'
import type { TraceStats } from '../stats.js'
import { capacityRemedy } from '../../runners/service.js'

/** Limits on the traces to list, to compute durations from, and to analyse in detail. */
const LISTED = 200
const COUNTED = 20
const CLOSELY = 3
/** Smallest reported share of a request's time. */
const SHARE = 0.05
/** Share of waiting in the total time above which a warning is raised. */
const WAITING = 0.3

/** Parts of a request's time by span category, without categories that contain others. */
const PARTS: Readonly<Record<string, string>> = {
  api: 'reading the request', queue: 'waiting in the queue', route: 'choosing a runner',
  network: 'on another node, including the network', prompt: 'preparing the text',
  prefill: 'reading the prompt', decode: 'writing the answer', synthesis: 'synthesising the speech',
  encode: 'encoding the audio', client: 'waiting for the client to read'
}

export default {
  async run (ctx, { model }) {
    const reads = createToolReads(ctx)
    const [tracing, list, state, cluster] = await Promise.all([
      reads.read<{ enabled: boolean }>('The tracing switch', '/v1/tracing'),
      reads.read<{ traces: ListedTrace[] }>('The traces', `/v1/traces/cluster?limit=${LISTED}`),
      reads.read<ClusterState>('The state of the cluster', '/state'),
      reads.read<Cluster>('The queues and the event loops of the nodes', '/v1/diagnostics/cluster')
    ])
    const traces = (list?.traces ?? []).filter(({ modelId, outcome }) =>
      outcome === 'completed' && (model === undefined || modelId === model))
    const { facts: machines, unknown } = nodesOf(state, cluster, model)
    return {
      facts: [
        ...machines, ...await times(reads, traces.slice(0, COUNTED), model),
        ...tracing?.enabled === false ? [untraced(traces.length)] : []
      ].sort((a, b) => RANKS[a.level] - RANKS[b.level]),
      unknown: [...reads.unknown, ...unknown]
    }
  }
} satisfies Tool<{ model?: string }>

const RANKS = { fail: 0, warn: 1, info: 2, ok: 3 } as const

function untraced (count: number): Fact {
  return fact('info', 'tracing_off', 'New requests are not traced, so it is unknown where their time goes' +
    `${count === 0 ? '' : '; the figures are from earlier ones'}.`, {
    evidence: [{ kind: 'path', path: '/v1/tracing' }],
    remedy: 'Turn tracing on with `svc traces on`, and ask again after a few requests.'
  })
}

/** Facts about request durations, and about the parts that took the newest and slowest requests' time. */
async function times (reads: ToolReads, traces: readonly ListedTrace[], model?: string): Promise<Fact[]> {
  const of = model === undefined ? '' : ` of ${quoted(model)}`
  if (traces.length === 0) {
    return [fact('info', 'not_traced', `There is no trace of a completed request${of}.`,
      { evidence: [{ kind: 'path', path: '/v1/traces/cluster' }] })]
  }
  const sorted = traces.toSorted((a, b) => a.durationUs - b.durationUs)
  const [median, slowest] = [sorted[Math.floor(sorted.length / 2)]!, sorted.at(-1)!]
  const most = `${showMs(slowest.durationUs / 1000)} (${quoted(slowest.taskId, 80)})`
  const took = traces.length === 1
    ? `One request${of} was traced; it took ${most}.`
    : `The newest ${traces.length} requests${of} took ${showMs(median.durationUs / 1000)} at the median ` +
      `and at most ${most}.`
  const chosen = [...new Set([...traces.slice(0, CLOSELY - 1), slowest])]
  const stats = (await Promise.all(chosen.map(({ taskId }) => reads.read<TraceStats>(
    `The trace ${quoted(taskId, 80)}`, `/v1/traces/cluster/${encodeURIComponent(taskId)}/stats`))))
    .filter((one) => one !== null)
  return [
    fact('info', 'durations', took, {
      about: [...new Set(traces.map(({ modelId }) => quoted(modelId))), quoted(slowest.taskId, 80)],
      evidence: [traced(slowest)]
    }),
    ...parts(stats, chosen)
  ]
}

const traced = ({ taskId }: Pick<ListedTrace, 'taskId'>): Evidence => ({ kind: 'trace', taskId })

/** Reports which share of the traces' time each part took, the largest share first. */
function parts (stats: readonly TraceStats[], traces: readonly ListedTrace[]): Fact[] {
  const whole = stats.reduce((sum, { totalWallTimeUs }) => sum + totalWallTimeUs, 0)
  if (whole === 0) return []
  const shares = Object.entries(PARTS).map(([category, label]) => {
    const us = stats.reduce((sum, { byCategory }) => sum + (byCategory[category]?.totalUs ?? 0), 0)
    return { category, label, us, share: us / whole }
  }).filter(({ share }) => share >= SHARE).sort((a, b) => b.us - a.us)
  const percent = (share: number): string => `${Math.round(share * 100)} %`
  const waited = shares.find(({ category, share }) => category === 'queue' && share >= WAITING)
  const evidence = traces.map(traced)
  return [
    ...shares.length === 0 ? [] : [fact('info', 'time_spent', 'Where the time went (parallel parts count ' +
    `separately): ${shares.map(({ label, share }) => `${percent(share)} ${label}`).join(', ')}.`,
    { evidence })],
    ...waited === undefined ? [] : [fact('warn', 'model_busy',
      `Requests wait in the queue for ${percent(waited.share)} of their time: there are more than the ` +
      'runners serve at once.', { evidence, remedy: capacityRemedy(quoted(traces[0]!.modelId)) })]
  ]
}

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

interface Cluster {
  nodes: {
    nodeId: string, name: string, live: boolean, error: { message: string } | string | null
    diagnostics: {
      resources: { eventLoopDelayMs: { p50: number, p99: number }, dataPlane: { callsWaiting: number } }
      supervisorRunners: Runner[]
    } | null
  }[]
}

/** Finds causes of slow requests: queues, late event loops, busy processors, slow links. Pure. */
function nodesOf (state: ClusterState | null, cluster: Cluster | null, model?: string): Finding {
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
