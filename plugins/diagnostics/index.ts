import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin, monitorLoop, Reply, type Context, type Manifest } from '../../kernel/index.js'
import { capture } from './capture/index.js'
import { clusterDiagnostics, listFindings, type HandlerParts } from './handlers.js'
import { manifest } from './manifest.js'
import type { Metrics } from './metrics/index.js'
import { nodeDiagnostics } from './report.js'

type DiagnosticsContext = Context<typeof manifest>

/** Milliseconds for which all scrapes share the findings, for which every node is asked. */
const FINDINGS_MS = 10_000

export default definePlugin(manifest, async (ctx) => {
  let found: { atMs: number, open: { code: string, severity: string }[] } | undefined
  const loop = monitorLoop()
  ctx.effect('event loop monitor', loop.stop)
  const metrics = await openMetrics(ctx)
  ctx.effect('metrics', metrics.stop)
  const parts: HandlerParts = {
    ctx, metrics, own: () => nodeDiagnostics(ctx, loop), secrets: () => knownSecrets(ctx.node.home)
  }
  return {
    routes: {
      gossip: () => ctx.deps.gossip.counters(), node: parts.own,
      cluster: (request) => clusterDiagnostics(parts, request, request.query.timeout_ms),
      findings: (request) => listFindings(parts, request), capture: (request) => capture(parts, request),
      metrics: async ({ caller, signal }) => {
        const reader = { ...caller, authorities: new Set(['read']) }
        if (found === undefined || ctx.clock.mono() - found.atMs > FINDINGS_MS) {
          const { findings } = await listFindings(parts, { caller: reader, signal, query: {} })
          // A scraper that left has ended the search early.
          signal.throwIfAborted()
          found = { atMs: ctx.clock.mono(), open: findings.filter(({ ended }) => !ended) }
        }
        return new Reply(await metrics.text(found.open))
      }, openapi: openApiBytes(ctx)
    }
  }
})

/** The OpenAPI document as bytes, cached until the enabled plugins change, since anyone may request it. */
function openApiBytes ({ deps: { declared, inspection }, node }: DiagnosticsContext): () => Promise<Buffer> {
  let of: readonly Manifest[] = []
  let document: Promise<Buffer> | undefined
  return () => {
    const { manifests } = declared
    const same = of.length === manifests.length && manifests.every((one, i) => one === of[i])
    if (document !== undefined && same) return document
    of = manifests
    const scheme = inspection.url()?.startsWith('https:') === true ? 'https' : 'http'
    return document = import('./openapi.js')
      .then(({ openApi }) => Buffer.from(JSON.stringify(openApi(manifests, node.version, scheme))))
  }
}

async function openMetrics (ctx: DiagnosticsContext): Promise<Metrics> {
  const { deps, node } = ctx
  // Import this large module only at the plugin's start, because the command line imports this file too.
  const { startMetrics } = await import('./metrics/index.js')
  const { cluster, declared, gossip, inspection, session, tap, traffic, calls, work, log } = deps
  return startMetrics({
    cluster, gossip, inspection, session, tap, traffic, calls, work, log,
    get machine () { return deps.machine }, get eventLog () { return deps.eventLog },
    get models () { return deps.models }, get ship () { return deps.ship },
    get tracing () { return deps.tracing }, version: node.version, home: node.home,
    capabilities: declared.manifests.flatMap(({ capabilities = {} }) => Object.values(capabilities)),
    runners: () => deps.runners?.reports() ?? []
  })
}

/** The operator token of this home, the only secret value that this plugin may read. */
function knownSecrets (home: string): string[] {
  try { return [readFileSync(join(home, 'operator.token'), 'utf8').trim()] } catch { return [] }
}
