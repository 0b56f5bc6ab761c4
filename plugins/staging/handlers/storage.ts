import { join } from 'node:path'
import { sizeOf } from '../files/walk.js'
import { volumeOf } from '../files/folders.js'
import { eachNode, onlyNode } from '../peers/each-node.js'
import { modelUrl, NODE_CALLER } from '../peers/sources.js'
import { routes, type Answers } from '../routes.js'
import { failureOf } from '../transfer/job.js'
import { onStoreHost, modelIn, eitherSpelling, modelIdOf, refuseVirtual } from './request.js'
import { randomUUID } from 'node:crypto'
import type { RouteRequest, Caller } from '../../../kernel/index.js'
import type { ModelManager } from '../manager/manager.js'
import type { NodeProblem } from '../service.js'
import type { EvictionPreview } from '../space/evictor.js'

/** GET /store/storage. Only operators see local paths. */
export async function storage (manager: ModelManager, { caller }: RouteRequest): Promise<unknown> {
  const { ctx: { node, deps }, roots: { staged }, evictor } = manager
  const [{ copies, totalBytes }, volume, eventLogBytes, partialBytes] = await Promise.all([
    evictor.storage(),
    // If the staging folder is unusable, report the disk of the home folder instead.
    volumeOf(staged.usable ? staged.root : node.home),
    sizeOf(join(node.home, 'events')),
    manager.partialBytes()
  ])
  const mayKnow = caller.authorities.has('operator')
  return {
    nodeId: node.nodeId,
    stagingRoot: mayKnow ? staged.root : null,
    stagedModels: copies.map(({ modelId, directory, sizeBytes, lastUsedMs, inUse }) => ({
      modelId, directory: mayKnow ? directory : null, sizeBytes,
      lastUsedEpochSeconds: Math.floor(lastUsedMs / 1000), inUse, in_use: inUse
    })),
    stagedTotalBytes: totalBytes, partialBytes, eventLogBytes,
    eventLogMode: deps.eventLog?.status().mode ?? null,
    diskTotalBytes: volume.totalBytes, diskFreeBytes: volume.freeBytes
  }
}

export const health = onStoreHost(routes.health, async (store, { storePath }, { caller }) => {
  const { freeBytes, totalBytes } = await volumeOf(storePath!)
  const usedBytes = store.entries().reduce((sum, { manifest }) => sum + manifest.totalBytes, 0)
  const mayKnow = caller.authorities.has('operator')
  return { storePath: mayKnow ? storePath : null, freeBytes, totalBytes, usedBytes }
})

export const registry = onStoreHost(routes.registry, (store, manager, { caller }) => {
  const mayKnow = caller.authorities.has('operator')
  const copies = manager.catalogue.copiesByModel()
  return {
    entries: store.offers().map(({ modelId, directory, manifest, digest, downloadedAt }) => ({
      model_id: modelId,
      store_path: mayKnow ? directory : null,
      files: manifest.files.map(({ path, size, sha256 }) => ({ path, size, sha256 })),
      downloaded_at: downloadedAt,
      total_bytes: manifest.totalBytes,
      cached_on_nodes: (copies.get(modelId) ?? [])
        .filter((copy) => copy.kind !== 'store' && copy.digest === digest).map(({ nodeId }) => nodeId)
    })),
    // Folders that were copied into the store by hand but cannot be offered, with the reasons.
    problems: store.problems().map(({ modelId, problem }) => ({ model_id: modelId, problem }))
  }
})

/** Timeout in ms for one node; a node that does not answer counts as having enough disk space. */
const ROOM_MS = 5000

export async function room (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  return { problem: await roomProblem(manager, modelIn(request)) }
}

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

/** Why this disk has no room for the missing copies of a model and its companions; null if it has room. */
async function roomProblem (manager: ModelManager, modelId: string): Promise<string | null> {
  const { local, store, catalogue, freeSpace, roots: { staged }, evictor } = manager
  const { device } = await volumeOf(staged.root)
  let bytes = 0
  for (const id of [modelId, ...manager.companionsOf(modelId)]) {
    const digest = manager.digestOf(id) ?? undefined
    const offer = store?.offer(id)
    // Staging from a store on the same disk hard-links the files.
    const linked = offer?.kind === 'store' && (await volumeOf(offer.directory)).device === device
    if (linked || local.get(id, digest) !== undefined) continue
    const whole = catalogue.copies(id).find(({ kind }) => kind !== 'receiving')
    bytes += (whole?.sizeBytes ?? 0) - await freeSpace.fetched(staged.incoming(id), digest)
  }
  try {
    await evictor.requireRoom(bytes, modelId)
    return null
  } catch (error) {
    const { reason, message } = failureOf(error)
    if (reason === 'no_safe_fit') return message
    throw error
  }
}

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
