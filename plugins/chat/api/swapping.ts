/** Routes by which clients of LM Studio and llama-swap see and unload models. */
import { SvcError, type RouteRequest } from '../../../kernel/index.js'
import { bodyOf } from '../../runners/service.js'
import { isReady } from './ollama/load.js'
import { all } from './ollama/models.js'
import { requestLocal } from './ollama/own.js'
import type { ApiParts } from './types.js'

/** Handles GET /api/v0/models. */
export const lmStudioModels = (parts: ApiParts, request: RouteRequest): object => ({
  object: 'list',
  data: all(parts, request).map(({ modelId, tasks, support, family, quantization, contextLength }) => ({
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

/** Handles POST /unload: unloads every instance that has a time to live. */
export async function unload (parts: ApiParts, request: RouteRequest): Promise<object> {
  const timed = Object.values(parts.instances?.placed().instances ?? {}).map(bodyOf)
    .filter(({ placement, drainUntil }) => placement?.ttlSeconds != null && drainUntil === undefined)
  const ended = await Promise.all(timed.map(async ({ instanceId, shardAssignments: { modelId } }) =>
    await requestLocal(parts, request, { method: 'DELETE', path: `/instance/${instanceId}?unload=true` })
      .then(() => [modelId], (error: unknown) => {
        // Its time is over, or another request has unloaded it.
        if (error instanceof SvcError && error.reason === 'instance_not_found') return []
        throw error
      })))
  return { unloaded: [...new Set(ended.flat())] }
}
