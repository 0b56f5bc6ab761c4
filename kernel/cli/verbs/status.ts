import { CliError } from '../errors.js'
import { notYet, retryFor } from '../wait.js'
import type { Verb, VerbContext } from '../verb.js'

interface Identity { friendlyName: string | null, svcVersion: string, apiUrl: string | null }
interface Reason { code: string, message: string, remediation: string }
interface Health { level: 'ok' | 'warn' | 'error', reasons: Reason[] }

/** The parts of GET /state that this view joins. */
interface State {
  masterNodeId: string | null
  localNodeId: string
  nodeIdentities: Record<string, Identity>
  nodeHealth: Record<string, Health>
  nodeCapabilities: Record<string, string[]>
  runners: Record<string, unknown>
}

/** One check of GET /readyz. */
interface Check { name: string, ok: boolean, detail: string }

export default {
  async run (ctx) {
    if (ctx.wait !== undefined) await untilReady(ctx, ctx.wait)
    const state = await ctx.client.json<State>('/state')
    const checks = await readiness(ctx)
    const nodes = Object.keys(state.nodeIdentities).map((id) => nodeRow(id, state))
    if (ctx.out.json) {
      ctx.out.value({ nodes })
      return
    }
    ctx.out.table(['NODE', 'NAME', 'VERSION', 'HEALTH', 'MASTER', 'SERVES', 'URL'], nodes.map((n) =>
      [n.nodeId, n.name ?? '-', n.version, n.health.level, n.isMaster ? 'yes' : '-',
        n.capabilities.join(' ') || '-',
        n.url ?? ctx.client.url]))
    for (const { name, health } of nodes) {
      for (const { message, code, remediation } of health.reasons) {
        ctx.out.line(`${name ?? ''}: ${message} [${code}]\n  ${remediation}`)
      }
    }
    for (const { name, ok, detail } of checks) if (!ok) ctx.out.line(`not ready: ${name}: ${detail}`)
  }
} satisfies Verb

function nodeRow (nodeId: string, state: State): {
  nodeId: string, name: string | null, version: string, url: string | null
  isMaster: boolean, isLocal: boolean, health: Health, capabilities: string[]
} {
  const identity = state.nodeIdentities[nodeId]!
  return {
    nodeId,
    name: identity.friendlyName,
    version: identity.svcVersion,
    url: identity.apiUrl,
    isMaster: state.masterNodeId === nodeId,
    isLocal: state.localNodeId === nodeId,
    health: state.nodeHealth[nodeId] ?? { level: 'ok', reasons: [] },
    capabilities: state.nodeCapabilities[nodeId] ?? []
  }
}

/** What GET /readyz saw, whether it says yes or no. */
async function readiness (ctx: VerbContext): Promise<Check[]> {
  try {
    return (await ctx.client.json<{ checks: Check[] }>('/readyz')).checks
  } catch (error) {
    if (!(error instanceof CliError) || error.status !== 503) throw error
    return (error.api?.details?.['checks'] ?? []) as Check[]
  }
}

/** Waits for a 200 of /readyz; throws its CliError (4, or 7 without a node) when the time is up. */
async function untilReady (ctx: VerbContext, seconds: number): Promise<void> {
  await retryFor({
    seconds,
    signal: ctx.signal,
    again: notYet,
    onWait: (error) => { ctx.err.update(`waiting: ${error.message.split('\n')[0]!}`) }
  }, () => ctx.client.json('/readyz'))
  ctx.err.end()
}
