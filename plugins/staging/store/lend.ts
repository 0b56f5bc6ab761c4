import { manifestDigest } from '../files/record.js'
import { hashTree } from './folder.js'
import type { ModelManager } from '../manager/manager.js'

/** How long a folder stays lent: a store host fetches it at once, but it may be large, ms. */
const LENT_MS = 24 * 3600_000

/** A folder of the operator's that is to become a model. */
export interface Lending { modelId: string, folder: string, signal: AbortSignal }

/**
 * Hashes a folder of this node and lets the store host fetch it. Throws `import_refused` with the reason when
 * the folder is no model.
 */
export async function lendFolder (
  manager: ModelManager, { modelId, folder, signal }: Lending
): Promise<void> {
  const refused = (error: unknown): Error =>
    manager.options.ctx.error('import_refused', `${folder}: ${(error as Error).message}`)
  const manifest = await hashTree(folder, { modelId, revision: 'local', signal })
    .catch((error: unknown) => { throw refused(error) })
  const files = manifest.files.map(({ path, size, sha256 }) => ({ path, size, sha256 }))
  const card = await manager.derive(folder, { modelId, revision: manifest.revision, files })
    .catch((error: unknown) => { throw refused(error) })
  const back = manager.exchange.lend(modelId, { folder, manifest, digest: manifestDigest(manifest), card })
  manager.options.ctx.effect('lent folder', manager.clock.after(LENT_MS, back))
}
