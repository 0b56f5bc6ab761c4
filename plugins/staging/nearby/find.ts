import { selectFiles } from '../hub/select.js'
import { readSnapshot } from './hub-cache.js'
import { readOllama } from './ollama.js'
import type { DownloadRequest } from '../store/download.js'
import type { Nearby, Source } from '../store/types.js'
import type { LocalHubFile } from '../hub/types.js'

/** What other programs of this machine have of a model: the files to take, and all there are. */
export interface LocalModelFiles { from: string, commit: string, files: LocalHubFile[], all: LocalHubFile[],
  unused: string[] }

/** Looks for a model in the hub's cache or at Ollama's. Throws StoreError, and HubError as `selectFiles`. */
export async function findNearby (
  nearby: Nearby, source: Source & { kind: 'cache' | 'ollama' }, modelId: string,
  { revision, allow, variant }: Omit<DownloadRequest, 'source'>
): Promise<LocalModelFiles> {
  if (source.kind === 'ollama') {
    const { files, unused } = await readOllama(nearby.ollama, source.name)
    return { from: 'Ollama', commit: revision ?? 'local', files, all: files, unused }
  }
  const { commit, files: all } = await readSnapshot(nearby.hubCaches, modelId, revision)
  const files = selectFiles(all, { allow, variant })
  return { from: 'the hub\'s cache', commit, files, all, unused: [] }
}
