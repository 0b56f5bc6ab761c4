import { definePlugin } from '../../kernel/index.js'
import { Catalog } from './catalog.js'
import { manifest } from './manifest.js'
import { serveMember } from './remote.js'
import { UpstreamServer } from './server.js'
import { checkChains, serversOf, type Chain } from './settings.js'

/** Interval in ms at which servers that cannot be used are probed. */
const LOOK_MS = 10_000

/** Chats with other servers, and fallback chains. */
export default definePlugin(manifest, (ctx) => {
  const { clock, deps, config } = ctx
  const chains = config.models as Record<string, Chain>
  checkChains(chains)
  const servers = serversOf(config.servers, ctx.node.home, process.env).map((settings) =>
    new UpstreamServer(settings, {
      clock, spending: () => deps.spending, changed: () => { update() },
      nodes: () => deps.cluster.nodes().map(({ installId }) => installId)
    }))
  const catalog = new Catalog(ctx, servers, chains)
  function update (): void {
    catalog.update()
    const down = servers.flatMap(({ settings: { name, missing }, problem }) =>
      problem === null || missing !== null ? [] : [`${name} since ${problem.since}: ${problem.message}`])
    if (down.length > 0) ctx.raise('upstream_down', down.join('; ').slice(0, 1000))
    else ctx.clear('upstream_down')
  }
  const probe = (): void => { for (const server of servers) void server.probe() }
  for (const server of servers) ctx.effect(`connections to ${server.settings.name}`, () => { server.close() })
  ctx.effect('models of other nodes', ctx.sections.models.observe(update))
  if (servers.length > 0) ctx.every('probes of servers', LOOK_MS, probe)
  update()
  probe()
  return {
    routes: {
      task: async (request) => {
        await serveMember({ clock, invocations: deps.invocations }, request, (modelId, task, call) =>
          catalog.openHere(modelId, task, { ...call, modelId, capability: 'chat' }, call.signal))
      }
    }
  }
})
