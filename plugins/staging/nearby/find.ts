import { selectFiles } from '../hub/select.js'
import { readSnapshot } from './hub-cache.js'
import { readOllama } from './ollama.js'
import type { DownloadRequest } from '../store/download.js'
import type { Nearby, Source } from '../store/types.js'
import type { LocalHubFile } from '../hub/types.js'

/** A model that another program has on this machine: its files to import (`files`) and all of its files. */
export interface LocalModelFiles { from: string, commit: string, files: LocalHubFile[], all: LocalHubFile[],
  unused: string[] }

/** Finds a model in the hub's cache or in Ollama. Throws StoreError, or the HubErrors of `selectFiles`. */
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
