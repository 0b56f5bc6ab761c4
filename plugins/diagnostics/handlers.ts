import { badField, type Context, type RouteRequest } from '../../kernel/index.js'
import { lookedAt, type ToolContext } from '../../kernel/cli/index.js'
import { reportsOf } from './fan-out.js'
import { findings, PAST_MS } from './findings.js'
import type { manifest } from './manifest.js'
import type { Metrics } from './metrics/index.js'
import type { NodeDiagnostics } from './report.js'
import type { routes } from './routes.js'

export interface HandlerParts {
  ctx: Context<typeof manifest>
  metrics: Metrics
  own: () => NodeDiagnostics
  /** This node's secret values, to be masked in bundles. */
  secrets: () => readonly string[]
}

/** GET /v1/findings: everything is read with the caller's authorities. */
export async function listFindings (
  { ctx: { clock, deps: { api, declared } } }: HandlerParts,
  { caller, signal, query: { since, subject } }: RouteRequest<typeof routes.findings>
): Promise<object> {
  const nowMs = clock.now()
  const sinceMs = since === undefined ? nowMs - PAST_MS : Date.parse(since)
  if (Number.isNaN(sinceMs)) throw badField('since', 'is not a time in ISO-8601')
  const reads = new Map<string, Promise<unknown>>()
  const read = async (path: string): Promise<unknown> => {
    const { status, text } = await api.ask({ path, caller, signal })
    return lookedAt(status, text)
  }
  const look = (path: string): Promise<unknown> => {
    const answer = reads.get(path) ?? read(path)
    reads.set(path, answer)
    return answer
  }
  const { facts, unknown } = await findings(
    { look: look as ToolContext['look'], nowMs, declared: () => declared.whole() }, sinceMs)
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
