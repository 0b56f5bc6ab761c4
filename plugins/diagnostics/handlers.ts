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
  /** This node's own report. */
  own: () => NodeDiagnostics
  /** Secrets of this node that are known by their value. */
  secrets: () => readonly string[]
}

type Asker = Pick<RouteRequest, 'caller' | 'signal'>

/** Default time for a runner to release its tasks, seconds. */
const GRACE_SECONDS = 5

/** The diagnostics of every node, as GET /v1/diagnostics/cluster answers. */
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

/** A node of another version may say more or less; without these it is no report. */
function readDiagnostics (sent: unknown): NodeDiagnostics | null {
  if (typeof sent !== 'object' || sent === null) return null
  const { generatedAt, runtime, supervisorRunners } = sent as Partial<NodeDiagnostics>
  const isReport = typeof runtime === 'object' && runtime !== null && Array.isArray(supervisorRunners)
  return isReport && typeof generatedAt === 'string' ? sent as NodeDiagnostics : null
}

/** Ends what a runner of this node works on. Throws `not_found` for a runner that is not here. */
export async function cancelRunner (
  { ctx }: HandlerParts, runnerId: string, graceSeconds: number = GRACE_SECONDS
): Promise<object> {
  const done = await ctx.deps.work?.cancel(runnerId, graceSeconds * 1000) ?? null
  if (done === null) {
    throw kernelError('not_found', `No runner ${runnerId} is on this node; GET /v1/diagnostics/node lists ` +
      'its runners, GET /v1/diagnostics/cluster those of all nodes.')
  }
  const { taskIds, restarted } = done
  ctx.log.warn({ runnerId, tasks: taskIds.length, restarted }, 'an operator cancelled the tasks of a runner')
  const count = `${taskIds.length} task${taskIds.length === 1 ? '' : 's'}`
  const message = taskIds.length === 0
    ? 'The runner works on nothing.'
    : restarted
      ? `${count} cancelled; the runner did not let go within ${graceSeconds} s and is started again.`
      : `${count} cancelled; the runner goes on.`
  return { runnerId, cancelledTasks: taskIds, restarted, message }
}
