/** Routes by which clients of LM Studio and llama-swap see and unload models. */
import { bodyOf } from '../../runners/service.js'
import { isReady, unloadModel } from './ollama/load.js'
import { all } from './ollama/models.js'
import type { RouteRequest } from '../../../kernel/index.js'
import type { ApiParts } from './types.js'

/** Handles GET /api/v0/models. */
export const lmStudioModels = (parts: ApiParts): object => ({
  object: 'list',
  data: all(parts).map(({ modelId, tasks, support, family, quantization, contextLength }) => ({
    id: modelId, object: 'model', publisher: modelId.split('/')[0], arch: family, quantization,
    type: tasks.includes('embeddings') ? 'embeddings' : support['images'] === undefined ? 'llm' : 'vlm',
    state: isReady(parts, modelId) ? 'loaded' : 'not-loaded', max_context_length: contextLength
  }))
})

/** Handles GET /running. */
export const running = (parts: ApiParts): object => ({
  running: Object.values(parts.instances?.placed().instances ?? {}).map(bodyOf)
    .map(({ shardAssignments: { modelId: model }, drainUntil }) => ({
      model, state: drainUntil !== undefined ? 'stopping' : isReady(parts, model) ? 'ready' : 'starting'
    }))
})

/** Handles POST /unload: unloads every model that has a time to live. */
export async function unload (parts: ApiParts, request: RouteRequest): Promise<object> {
  const models = Object.values(parts.instances?.placed().instances ?? {}).map(bodyOf)
    .flatMap(({ placement, shardAssignments: { modelId } }) => placement?.ttlSeconds == null ? [] : [modelId])
  for (const modelId of new Set(models)) await unloadModel(parts, request, modelId)
  return { unloaded: [...new Set(models)] }
}
