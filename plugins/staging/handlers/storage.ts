import { join } from 'node:path'
import { sizeOf, volumeOf } from '../files/index.js'
import type { RouteRequest } from '../../../kernel/index.js'
import type { Plane } from '../plane.js'

/** GET /store/storage: what this node keeps. Where it keeps it is for the operator alone. */
export async function storage (plane: Plane, { caller }: RouteRequest): Promise<unknown> {
  const { node, staging, keeper, besideKeeper } = plane
  // A folder that cannot be used holds nothing of ours; the home's volume is told of then.
  const usable = plane.usable(staging) !== null
  const none = { copies: [], totalBytes: 0 }
  const [main, beside, volume, eventLogBytes, partialBytes] = await Promise.all([
    usable ? keeper.storage() : none,
    usable ? besideKeeper.storage() : none,
    volumeOf(usable ? staging.root : node.home),
    sizeOf(join(node.home, 'events')),
    plane.partialBytes()
  ])
  const mayKnow = caller.authorities.has('operator')
  return {
    nodeId: node.nodeId,
    stagingRoot: mayKnow ? staging.root : null,
    stagedModels: [...main.copies, ...beside.copies].map((
      { modelId, directory, sizeBytes, lastUsedMs, inUse }) => ({
      modelId,
      directory: mayKnow ? directory : null,
      sizeBytes,
      lastUsedEpochSeconds: Math.floor(lastUsedMs / 1000),
      inUse,
      in_use: inUse
    })),
    stagedTotalBytes: main.totalBytes + beside.totalBytes,
    partialBytes,
    eventLogBytes,
    eventLogMode: plane.options.ctx.deps.eventLog?.status().mode ?? null,
    diskTotalBytes: volume.totalBytes,
    diskFreeBytes: volume.freeBytes
  }
}
