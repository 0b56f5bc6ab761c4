import { volumeOf } from '../files/index.js'
import type { RouteRequest } from '../../../kernel/index.js'
import type { Plane } from '../plane.js'

/** GET /store/health. */
export async function health (plane: Plane, request: RouteRequest): Promise<unknown> {
  const { shelf, options: { storePath } } = plane
  if (shelf === null || storePath === null) {
    return await plane.access.forward(request, { method: 'GET', path: '/store/health' })
  }
  const { freeBytes, totalBytes } = await volumeOf(storePath)
  const usedBytes = shelf.items().filter(({ bundled }) => !bundled)
    .reduce((sum, { manifest }) => sum + manifest.totalBytes, 0)
  const mayKnow = request.caller.authorities.has('operator')
  return { storePath: mayKnow ? storePath : null, freeBytes, totalBytes, usedBytes }
}

/** GET /store/registry. */
export async function registry (plane: Plane, request: RouteRequest): Promise<unknown> {
  const { shelf, store } = plane
  if (shelf === null) return await plane.access.forward(request, { method: 'GET', path: '/store/registry' })
  const mayKnow = request.caller.authorities.has('operator')
  return {
    entries: shelf.items().map(({ modelId, directory, manifest, digest, downloadedAt }) => ({
      model_id: modelId,
      store_path: mayKnow ? directory : null,
      files: manifest.files.map(({ path, size, sha256 }) => ({ path, size, sha256 })),
      downloaded_at: downloadedAt,
      total_bytes: manifest.totalBytes,
      cached_on_nodes: plane.catalogue.copies(modelId)
        .filter((copy) => copy.kind !== 'store' && copy.digest === digest).map(({ nodeId }) => nodeId)
    })),
    // Folders somebody put there that cannot be offered, and why.
    problems: store?.problems().map(({ modelId, problem }) => ({ model_id: modelId, problem })) ?? []
  }
}
