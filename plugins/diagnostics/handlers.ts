import type { Context, RouteRequest } from '../../kernel/index.js'
import { askAll, type PeerAnswer } from './fan-out.js'
import type { manifest } from './manifest.js'
import type { Metrics } from './metrics/index.js'
import type { NodeDiagnostics } from './report.js'

export interface HandlerParts {
  ctx: Context<typeof manifest>
  metrics: Metrics
  own: () => NodeDiagnostics
  /** This node's secret values, to be masked in bundles. */
  secrets: () => readonly string[]
}

type Asker = Pick<RouteRequest, 'caller' | 'signal'>

export async function clusterDiagnostics (parts: HandlerParts, { caller, signal }: Asker): Promise<object> {
  const { ctx } = parts
  const answers = await askAll({ cluster: ctx.deps.cluster, clock: ctx.clock }, {
    path: '/v1/diagnostics/node', caller, signal, own: parts.own, read: readDiagnostics,
    timeOf: ({ generatedAt }) => generatedAt
  })
  const generatedAt = new Date(ctx.clock.now()).toISOString()
  return { generatedAt, localNodeId: ctx.node.nodeId, nodes: answers.map(shownPeer) }
}

function shownPeer ({ node, value, error, tookMs, clock }: PeerAnswer<NodeDiagnostics>): object {
  return {
    nodeId: node.nodeId, nodeInstallId: node.installId, name: node.name, live: node.live,
    master: node.master, error, tookMs: tookMs === null ? null : Math.round(tookMs),
    clockAheadMs: clock === null ? null : Math.round(clock.offsetMs),
    clockUncertaintyMs: clock === null ? null : Math.ceil(clock.uncertaintyMs), diagnostics: value
  }
}

/** Accepts reports from other svc versions, with more or fewer fields; null if a required one is missing. */
function readDiagnostics (sent: unknown): NodeDiagnostics | null {
  if (typeof sent !== 'object' || sent === null) return null
  const { generatedAt, runtime, supervisorRunners } = sent as Partial<NodeDiagnostics>
  const isReport = typeof runtime === 'object' && runtime !== null && Array.isArray(supervisorRunners)
  return isReport && typeof generatedAt === 'string' ? sent as NodeDiagnostics : null
}
