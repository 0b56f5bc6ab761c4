/** Reads the cache of the hub's own tools: `models--ORG--NAME/blobs`. */
import { lstat, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { HubFile, LocalHubFile } from '../hub/types.js'

/** Finds files in the cache by the hash in the blob's name, without reading their contents. */
export async function cachedFiles (
  cache: string | null, modelId: string, files: readonly HubFile[]
): Promise<LocalHubFile[]> {
  const root = cache === null ? undefined : await realpath(cache).catch(() => undefined)
  if (root === undefined) return []
  const found: LocalHubFile[] = []
  for (const file of files) {
    const inner = `models--${modelId.replace('/', '--')}/blobs/${file.sha256 ?? file.gitSha1!}`
    const there = await lstat(join(root, inner)).catch(() => undefined)
    if (there?.isFile() === true && there.size === file.size) found.push({ ...file, root, inner })
  }
  return found
}
