import { randomUUID } from 'node:crypto'
import type { Caller, RouteRequest } from '../../../kernel/index.js'
import { eachNode, onlyNode } from '../peers/each-node.js'
import type { EvictionPreview } from '../space/evictor.js'
import { onStoreHost, eitherSpelling, modelIdOf, modelIn, refuseVirtual } from './request.js'
import type { ModelManager } from '../manager/manager.js'
import { routes, type Answers } from '../routes.js'

type NodePurged = Answers['purge']['nodes'][number]
/** `preview` reports the effect of a purge without removing anything. */
type PurgeTrigger = 'purge' | 'store_delete' | 'preview'

const DEADLINE_MS = 20_000

/** Header of a purge that follows a deletion from the store; ignored unless another node sends it. */
const DELETED_HEADER = 'x-svc-store-delete'

export async function purge (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  const body = request.body as Record<string, unknown>
  const given = eitherSpelling<string>(body, 'modelId', 'model_id')
  const modelId = given === undefined ? undefined : modelIdOf(given, '/modelId')
  const dryRun = eitherSpelling<boolean>(body, 'dryRun', 'dry_run') === true
  const deleted = request.headers[DELETED_HEADER] !== undefined
  const trigger = dryRun ? 'preview' : 'purge'
  const nodes = request.member === null
    ? await everywhere(manager, modelId, request.caller, trigger)
    : [await here(manager, modelId, deleted ? 'store_delete' : trigger)]
  const freed = nodes.reduce((sum, { freedBytes }) => sum + freedBytes, 0)
  const removed = nodes.reduce((sum, node) => sum + node.removed.length, 0)
  return {
    commandId: request.headers['x-svc-command-id'] ?? randomUUID(),
    message: `${dryRun ? 'Would remove' : 'Removed'} ${removed} staged copies, ${freed} bytes.`,
    nodes
  }
}

async function here (
  manager: ModelManager, modelId: string | undefined, trigger: PurgeTrigger
): Promise<NodePurged> {
  const { evictor, ctx } = manager
  const { nodeId } = ctx.node
  if (trigger === 'preview') {
    const { copies, ...told } = await evictor.preview(modelId)
    const seconds = ({ lastUsedMs, ...copy }: EvictionPreview) =>
      ({ ...copy, lastUsedEpochSeconds: Math.floor(lastUsedMs / 1000) })
    return { nodeId, ...told, copies: copies.map(seconds) }
  }
  const { error, ...purged } = await evictor.purge(modelId, trigger)
  if (trigger === 'purge') ctx.emit('StagingPurged', { nodeId, ...purged })
  return { nodeId, ...purged, error }
}

async function everywhere (
  manager: ModelManager, modelId: string | undefined, caller: Caller, trigger: PurgeTrigger
): Promise<NodePurged[]> {
  return await eachNode<NodePurged>(manager, manager.cluster.nodes(), {
    method: 'POST', path: '/store/purge-staging',
    body: { ...modelId === undefined ? {} : { modelId }, ...trigger === 'preview' ? { dryRun: true } : {} },
    headers: trigger === 'store_delete' ? { [DELETED_HEADER]: '1' } : {},
    caller, ms: DEADLINE_MS, read: onlyNode,
    here: async () => await here(manager, modelId, trigger),
    failed: ({ nodeId }, error) => ({
      nodeId, removed: [], skippedInUse: [], freedBytes: 0, error,
      ...trigger === 'preview' ? { copies: [] } : {}
    })
  })
}

export async function remove (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  refuseVirtual(manager, modelIn(request))
  return await removeAtStore(manager, request)
}

const removeAtStore = onStoreHost(routes.remove, async (store, manager, request) => {
  const { ctx } = manager
  const modelId = modelIn(request)
  if (store.offer(modelId)?.kind === 'bundled') {
    throw ctx.error('model_bundled', `${modelId} ships with svc and cannot be removed.`)
  }
  await store.remove(modelId)
  ctx.emit('ModelDeleted', { nodeId: ctx.node.nodeId, modelId })
  const nodes = await everywhere(manager, modelId, request.caller, 'store_delete')
  return { modelId, deleted: true, nodes }
})
