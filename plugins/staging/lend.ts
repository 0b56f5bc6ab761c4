import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hashFile, manifestDigest, walkModel } from './files/index.js'
import type { Plane } from './plane.js'
import { CHUNK_BYTES } from './types.js'
import type { ModelManifest } from './types.js'

/** How long a folder stays lent: a store host fetches it at once, but it may be large, ms. */
const LENT_MS = 24 * 3600_000

/** A folder of the operator's that is to become a model. */
export interface Lending { modelId: string, folder: string, signal: AbortSignal }

/**
 * Hashes a folder of this node and lets the store host fetch it. Throws `import_refused` with the reason when
 * the folder is no model.
 */
export async function lendFolder (plane: Plane, { modelId, folder, signal }: Lending): Promise<void> {
  const refused = (error: unknown): Error =>
    plane.options.ctx.error('import_refused', `${folder}: ${(error as Error).message}`)
  const manifest = await hashFolder(modelId, folder, signal)
    .catch((error: unknown) => { throw refused(error) })
  const files = manifest.files.map(({ path, size, sha256 }) => ({ path, size, sha256 }))
  const card = await plane.derive(folder, { modelId, revision: manifest.revision, files })
    .catch((error: unknown) => { throw refused(error) })
  const back = plane.exchange.lend(modelId, { folder, manifest, digest: manifestDigest(manifest), card })
  plane.options.ctx.effect('lent folder', plane.clock.after(LENT_MS, back))
}

async function hashFolder (modelId: string, folder: string, signal: AbortSignal): Promise<ModelManifest> {
  if (!(await stat(folder)).isDirectory()) throw new Error('it is no folder')
  const found = await walkModel(folder)
  if (found.length === 0) throw new Error('it is empty')
  const files: ModelManifest['files'] = []
  for (const { path } of found) files.push({ path, ...await hashFile(join(folder, path), { signal }) })
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0)
  return { modelId, revision: 'local', totalBytes, chunkBytes: CHUNK_BYTES, files }
}
