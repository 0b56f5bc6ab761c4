import { noSuchNode } from '../../../kernel/index.js'
import type { NodeView, RouteRequest } from '../../../kernel/index.js'
import { idOf, nodesOf } from '../place/instance.js'
import type { Planning } from '../place/planning.js'
import type { routes } from '../routes.js'

interface DrainAnswer {
  message: string, node_id: string, drained: boolean, changed: boolean, instances: string[]
}

/** PUT /nodes/{node}/drain: written down for the whole cluster; the master's keeper moves what is there. */
export async function drain (
  planning: Planning, { params, caller }: RouteRequest<typeof routes.drain>
): Promise<DrainAnswer> {
  const { command, clock, emit } = planning.ctx
  const node = nodeOf(planning, params.node)
  const { nodeId, installId, name } = node
  const since = new Date(clock.now()).toISOString()
  const { changed } = await command('drain', { installId, since, by: caller.id })
  if (changed) emit('NodeDrained', { nodeId, name, by: caller.id })
  const instances = runningOn(planning, node)
  const moving = instances.length === 0
    ? 'It runs nothing.'
    : `What it runs moves to other nodes, each once it is ready there (${instances.length} now).`
  return {
    message: `${name} is drained: nothing is placed there. ${moving}`,
    node_id: nodeId, drained: true, changed, instances
  }
}

/** DELETE /nodes/{node}/drain. */
export async function undrain (
  planning: Planning, { params, caller }: RouteRequest<typeof routes.undrain>
): Promise<DrainAnswer> {
  const { command, emit } = planning.ctx
  const node = nodeOf(planning, params.node)
  const { nodeId, installId, name } = node
  const { changed } = await command('undrain', { installId })
  if (changed) emit('NodeUndrained', { nodeId, name, by: caller.id })
  return {
    message: changed ? `${name} runs models again.` : `${name} was not drained.`, node_id: nodeId,
    drained: false, changed, instances: runningOn(planning, node)
  }
}

/** Also one that is not live: it may be drained before it comes back. */
function nodeOf ({ ctx }: Planning, ref: string): NodeView {
  const node = ctx.deps.cluster.resolve(ref)
  if (node === undefined) throw noSuchNode(ref, ctx.deps.cluster.nodes())
  return node
}

const runningOn = ({ facts }: Planning, { nodeId }: NodeView): string[] =>
  Object.values(facts.now().instances).filter((one) => nodesOf(one).includes(nodeId)).map(idOf)
