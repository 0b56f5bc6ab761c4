import { noSuchNode } from '../../../kernel/index.js'
import type { NodeView, RouteRequest } from '../../../kernel/index.js'
import { idOf, nodesOf } from '../place/instance.js'
import type { Planning } from '../place/planning.js'
import type { routes } from '../routes.js'

/**
 * Handler of PUT and DELETE /nodes/{node}/drain. Only records the drain; the keeper on the master moves the
 * instances.
 */
export async function drain (
  planning: Planning, { params, caller }: RouteRequest<{ readonly params: typeof routes.drain.params }>,
  drained: boolean
) {
  const { command, clock, emit } = planning.ctx
  const node = nodeOf(planning, params.node)
  const { nodeId, installId, name } = node
  const { changed } = drained
    ? await command('drain', { installId, since: new Date(clock.now()).toISOString(), by: caller.id })
    : await command('undrain', { installId })
  if (changed) emit(drained ? 'NodeDrained' : 'NodeUndrained', { nodeId, name, by: caller.id })
  const instances = Object.values(planning.facts.now().instances)
    .filter((one) => nodesOf(one).includes(nodeId)).map(idOf)
  const moving = instances.length === 0
    ? 'It runs nothing.'
    : `Its instances (${instances.length} now) move to other nodes, each once its replacement is ready.`
  const message = drained ? `${name} is drained and gets no new instances. ${moving}`
    : changed ? `${name} runs models again.` : `${name} was not drained.`
  return { message, node_id: nodeId, drained, changed, instances }
}

/** Finds the node even if it is not live, because a node can be drained before it returns. */
function nodeOf ({ ctx }: Planning, ref: string): NodeView {
  const node = ctx.deps.cluster.resolve(ref)
  if (node === undefined) throw noSuchNode(ref, ctx.deps.cluster.nodes())
  return node
}
