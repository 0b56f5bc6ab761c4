import type { RouteRequest } from '../../../kernel/index.js'
import { volumeOf } from '../files/folders.js'
import type { ModelManager } from '../manager/manager.js'
import { eachNode } from '../peers/each-node.js'
import { modelUrl, NODE_CALLER } from '../peers/sources.js'
import type { NodeProblem } from '../service.js'
import { NoSafeFit } from '../space/plans.js'
import { modelIn } from './request.js'

/** Longest wait for one node, ms; one that says nothing counts as one with room. */
const ROOM_MS = 5000

export async function room (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  return { problem: await roomProblem(manager, modelIn(request)) }
}

/** Asks nodes whether copies of the model fit on their disks; the ones on which they do not. */
export async function withoutRoom (
  manager: ModelManager, modelId: string, nodeIds: readonly string[]
): Promise<NodeProblem[]> {
  const nodes = manager.cluster.nodes().filter(({ nodeId }) => nodeIds.includes(nodeId))
  const problems = await eachNode<string | null>(manager, nodes, {
    path: `${modelUrl(modelId)}/room`, caller: NODE_CALLER, ms: ROOM_MS,
    here: async () => await roomProblem(manager, modelId),
    read: (body) => (body as { problem: string | null }).problem, failed: () => null
  })
  return nodes.flatMap(({ nodeId }, i) => problems[i] == null ? [] : [{ nodeId, message: problems[i] }])
}

/** Why copies of the model and its companions do not fit here; null when they do, or are here. */
async function roomProblem (manager: ModelManager, modelId: string): Promise<string | null> {
  const { local, store, catalogue, room, roots: { staged }, evictor } = manager
  const { device } = await volumeOf(staged.root)
  let bytes = 0
  for (const id of [modelId, ...manager.companionsOf(modelId)]) {
    const digest = manager.digestOf(id) ?? undefined
    const offer = store?.offer(id)
    // A copy from a store on the same disk consists of links.
    const linked = offer?.kind === 'store' && (await volumeOf(offer.directory)).device === device
    if (linked || local.get(id, digest) !== undefined) continue
    const whole = catalogue.copies(id).find(({ kind }) => kind !== 'receiving')
    bytes += (whole?.sizeBytes ?? 0) - await room.fetched(staged.incoming(id), digest)
  }
  try {
    await evictor.requireRoom(bytes, modelId)
    return null
  } catch (error) {
    if (error instanceof NoSafeFit) return error.message
    throw error
  }
}
