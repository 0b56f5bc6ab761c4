import { kernelError } from '../../kernel/index.js'
import type { Context, RouteRequest } from '../../kernel/index.js'
import { askAll } from './fan-out.js'
import type { PeerAnswer } from './fan-out.js'
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

/** Seconds for a runner to release its tasks, unless the request sets another time. */
const GRACE_SECONDS = 5

export async function clusterDiagnostics (parts: HandlerParts, { caller, signal }: Asker): Promise<object> {
  const { ctx } = parts
  const answers = await askAll({ cluster: ctx.deps.cluster, clock: ctx.clock }, {
    path: '/v1/diagnostics/node', caller, signal,
    own: parts.own,
    read: readDiagnostics,
    timeOf: ({ generatedAt }) => generatedAt
  })
  const generatedAt = new Date(ctx.clock.now()).toISOString()
  return { generatedAt, localNodeId: ctx.node.nodeId, nodes: answers.map(shownPeer) }
}

function shownPeer ({ node, value, error, tookMs, clock }: PeerAnswer<NodeDiagnostics>): object {
  return {
    nodeId: node.nodeId, nodeInstallId: node.installId, name: node.name, live: node.live, master: node.master,
    error,
    tookMs: tookMs === null ? null : Math.round(tookMs),
    clockAheadMs: clock === null ? null : Math.round(clock.offsetMs),
    clockUncertaintyMs: clock === null ? null : Math.ceil(clock.uncertaintyMs),
    diagnostics: value
  }
}

/** Accepts reports from other svc versions, with more or fewer fields; null if a required one is missing. */
function readDiagnostics (sent: unknown): NodeDiagnostics | null {
  if (typeof sent !== 'object' || sent === null) return null
  const { generatedAt, runtime, supervisorRunners } = sent as Partial<NodeDiagnostics>
  const isReport = typeof runtime === 'object' && runtime !== null && Array.isArray(supervisorRunners)
  return isReport && typeof generatedAt === 'string' ? sent as NodeDiagnostics : null
}

/** Cancels the tasks in a runner on this node. Throws `not_found` for an unknown runner. */
export async function cancelRunner (
  { ctx }: HandlerParts, runnerId: string, graceSeconds: number = GRACE_SECONDS
): Promise<object> {
  const done = await ctx.deps.work?.cancel(runnerId, graceSeconds * 1000) ?? null
  if (done === null) {
    throw kernelError('not_found', `There is no runner ${runnerId} on this node; GET /v1/diagnostics/node ` +
      'lists its runners, GET /v1/diagnostics/cluster those of all nodes.')
  }
  const { taskIds, restarted } = done
  ctx.log.warn({ runnerId, tasks: taskIds.length, restarted }, 'an operator cancelled the tasks of a runner')
  const count = `${taskIds.length} task${taskIds.length === 1 ? '' : 's'}`
  const message = taskIds.length === 0
    ? 'The runner has no tasks.'
    : restarted
      ? `${count} cancelled; the runner did not release them within ${graceSeconds} s and is restarted.`
      : `${count} cancelled; the runner continues.`
  return { runnerId, cancelledTasks: taskIds, restarted, message }
}
