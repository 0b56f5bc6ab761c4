import type { RouteRequest } from '../../../kernel/index.js'
import { HubError } from '../hub/types.js'
import type { ModelManager } from '../manager/manager.js'
import type { Answers } from '../routes.js'
import { asTold } from './plan.js'

/** GET /store/search: by the store host, which is to fetch what is chosen, or by this node without one. */
export async function search (
  manager: ModelManager, request: RouteRequest & { query: { query: string, limit: number } }
): Promise<unknown> {
  const { access, catalogue, ctx, hub, store } = manager
  const { signal } = request
  const query = request.query.query.trim()
  const { limit } = request.query
  if (store === null && request.member === null) await access.learned(signal)
  if (store === null && access.known() !== undefined) {
    const asked = new URLSearchParams({ query, limit: String(limit) }).toString()
    return await access.forward(request, { method: 'GET', path: `/store/search?${asked}` })
  }
  if (hub === null) throw ctx.error('hub_disabled')
  const found = await hub.search(query, { limit, signal })
    .catch((error: unknown) => {
      // A mirror may have the models and no list of them.
      if (!(error instanceof HubError) || error.reason !== 'not_found') throw asTold(ctx, error)
      throw ctx.error('hub_unavailable', `${hub.url} cannot be searched; a model can be pulled by its name.`)
    })
  return {
    hub: hub.url, query,
    models: found.map((one) => ({ ...one, here: catalogue.card(one.modelId) !== undefined }))
  } satisfies Answers['searchHub']
}
