import { definePlugin } from '../../kernel/index.js'
import { Catalog } from './catalog.js'
import { manifest } from './manifest.js'
import { serveMember } from './remote.js'
import { UpstreamServer } from './server.js'
import { checkChains, serversOf, type Chain } from './settings.js'

/** Ms between two checks for due probes. */
const LOOK_MS = 5_000

/** Chats with other servers, and fallback chains. */
export default definePlugin(manifest, (ctx) => {
  const { clock, deps, config, node } = ctx
  const chains = config.models as Record<string, Chain>
  checkChains(chains)
  const update = (): void => {
    catalog.update()
    const down = servers.flatMap(({ settings: { name, missing }, problem }) =>
      problem === null || missing !== null ? [] : [`${name} since ${problem.since}: ${problem.message}`])
    if (down.length > 0) ctx.raise('upstream_down', down.join('; ').slice(0, 1000))
    else ctx.clear('upstream_down')
  }
  const servers = serversOf(config.servers, node.home, process.env).map((settings) =>
    new UpstreamServer(settings, {
      clock, spending: () => deps.spending, changed: update,
      nodes: () => deps.cluster.nodes().map(({ installId }) => installId)
    }))
  const catalog = new Catalog(ctx, servers, chains, Math.random)
  const probe = (): void => { for (const server of servers) void server.probe() }
  ctx.effect('connections to servers', () => { for (const server of servers) server.close() })
  ctx.effect('models of other nodes', ctx.sections.models.observe(update))
  if (servers.length > 0) ctx.every('probes of servers', LOOK_MS, probe)
  update()
  probe()
  return {
    routes: {
      task: async (request) => {
        const { model: modelId, payload } = request.body
        await serveMember(deps.invocations, clock, request, (call) => catalog.openHere(
          modelId, { kind: 'chat', payload }, { ...call, modelId, capability: 'chat' }, call.signal))
      }
    }
  }
})
