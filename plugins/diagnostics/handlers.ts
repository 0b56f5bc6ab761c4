import {
  badField, type Context, type RouteRequest, askMembers, boundsOf, clockOffset, MemberFault, type Caller,
  type Clock, type Cluster, type FromSchema, type NodeView, type SvcError
} from '../../kernel/index.js'
import { lookingOnce } from '../../kernel/cli/index.js'
import { findings, PAST_MS, type Found } from './findings.js'
import { type routes, PEER_MS } from './routes.js'
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

/** A finding in the route's shape. */
type Shape = Omit<Found, 'level' | 'about' | 'text'> &
  { severity: string, subject: readonly string[], summary: string }

/** GET /v1/findings: everything is read with the caller's authorities. */
export async function listFindings (
  { ctx: { clock, deps: { api, declared } } }: HandlerParts,
  { caller, signal, query: { since, subject } }: Pick<
    RouteRequest<typeof routes.findings>, 'caller' | 'signal' | 'query'>
): Promise<{ generatedAt: string, unknown: readonly string[], findings: Shape[] }> {
  const nowMs = clock.now()
  const sinceMs = since === undefined ? nowMs - PAST_MS : Date.parse(since)
  if (Number.isNaN(sinceMs)) throw badField('since', 'is not a time in ISO-8601')
  const look = lookingOnce((path) => api.ask({ path, caller, signal }))
  const { facts, unknown } = await findings({ look, nowMs, declared: () => declared.whole() }, sinceMs)
  const wanted = subject?.toLowerCase()
  return {
    generatedAt: new Date(nowMs).toISOString(), unknown,
    // A neutral fact without a remedy only describes; the steward uses it.
    findings: facts.filter(({ level, about, code, ended, remedy }) =>
      level !== 'ok' && (level !== 'info' || ended || remedy !== null) &&
      (wanted === undefined || [code, ...about].some((one) => one.toLowerCase() === wanted)))
      .map(({ level, about, text, ...rest }) =>
        ({ ...rest, severity: level === 'fail' ? 'error' : level, subject: about, summary: text }))
  }
}

export async function clusterDiagnostics (
  { ctx: { clock, node, deps: { cluster } }, own }: HandlerParts,
  { caller, signal }: Pick<RouteRequest, 'caller' | 'signal'>, ms?: number
): Promise<object> {
  const nodes = await reportsOf({ cluster, clock }, own, { caller, signal }, ms)
  return { generatedAt: new Date(clock.now()).toISOString(), localNodeId: node.nodeId, nodes }
}

/** Largest accepted report from a node, in bytes. */
export const PEER_BYTES = 8 * 1024 ** 2

type Shown = FromSchema<typeof routes.cluster.reply>['nodes'][number]

/**
 * Asks all nodes for their reports in parallel, each within `ms`; the result begins with this node and
 * includes nodes that timed out, refused or sent an invalid report.
 */
export async function reportsOf (
  parts: { cluster: Pick<Cluster, 'nodes' | 'request'>, clock: Clock }, own: () => NodeDiagnostics,
  { caller, signal }: { caller: Caller, signal: AbortSignal }, ms = PEER_MS
): Promise<Shown[]> {
  const nodes = parts.cluster.nodes()
  const asked = askMembers(parts, nodes.filter(({ self }) => !self), {
    path: '/v1/diagnostics/node', caller, signal, ms, bytes: PEER_BYTES, read: readReport
  })
  const here = nodes.filter(({ self }) => self).map((node) => ({ ...silent(node), diagnostics: own() }))
  const others = (await Promise.all(asked)).map(({ node, sentAt, tookMs, value, error }): Shown => {
    if (error !== null) return { ...silent(node), error: faultOf(node, error) }
    const arrivedMs = Date.parse(value.generatedAt)
    const clock = clockOffset(boundsOf({ sentMs: sentAt, arrivedMs, backMs: sentAt + tookMs }))
    return {
      ...silent(node), tookMs: Math.round(tookMs), clockAheadMs: Math.round(clock.offsetMs),
      clockUncertaintyMs: Math.ceil(clock.uncertaintyMs), diagnostics: value
    }
  })
  return [...here, ...others]
}

const silent = ({ nodeId, installId, name, live, master }: NodeView): Shown => ({
  nodeId, nodeInstallId: installId, name, live, master, error: null, tookMs: null, clockAheadMs: null,
  clockUncertaintyMs: null, diagnostics: null
})

/** Accepts reports from other svc versions, with more or fewer fields; null if a required one is missing. */
function readReport (text: string): NodeDiagnostics | null {
  const sent = JSON.parse(text) as Partial<NodeDiagnostics> | null
  const isReport = typeof sent?.runtime === 'object' && sent.runtime !== null &&
    Array.isArray(sent.supervisorRunners) && !Number.isNaN(Date.parse(sent.generatedAt!))
  return isReport ? sent as NodeDiagnostics : null
}

function faultOf ({ live }: NodeView, error: MemberFault | SvcError): NonNullable<Shown['error']> {
  if (!live) return { reason: 'no_sign_of_life', message: 'The node gives no sign of life.' }
  if (error instanceof MemberFault) return { reason: error.reason, message: `The node ${error.message}.` }
  return { reason: 'unreachable', message: error.message.slice(0, 500) }
}
