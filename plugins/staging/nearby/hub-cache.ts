/** Reads the cache of the hub's own tools: `models--ORG--NAME/blobs`. */
import { lstat, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import type { HubFile, LocalHubFile } from '../hub/types.js'

/** Finds files in the caches by the hash in the blob's name, without reading their contents. */
export async function cachedFiles (
  caches: readonly string[], modelId: string, files: readonly HubFile[]
): Promise<LocalHubFile[]> {
  const folder = `models--${modelId.replace('/', '--')}`
  const found: LocalHubFile[] = []
  for (const cache of caches) {
    const root = await realpath(cache).catch(() => undefined)
    if (root === undefined) continue
    for (const file of files) {
      const inner = `${folder}/blobs/${file.sha256 ?? file.gitSha1!}`
      const there = await lstat(join(root, inner)).catch(() => undefined)
      const known = found.some(({ path }) => path === file.path)
      if (!known && there?.isFile() === true && there.size === file.size) found.push({ ...file, root, inner })
    }
  }
  return found
}
