import { badField, type RouteRequest } from '../../../kernel/index.js'
import { policyText } from '../place/policies.js'
import type { Planning } from '../place/planning.js'
import type { routes } from '../routes.js'

/** Handler of PATCH /models/{id}/policy. */
export async function setPolicy (
  planning: Planning, { params: { model_id: modelId }, body }: RouteRequest<typeof routes.policy>
) {
  const { command, sections } = planning.ctx
  const { min = 0, max = 1 } = body.replicas ?? {}
  if (max < min) throw badField('replicas.max', `must be at least ${min}, which is min`)
  // The policy of a model that was deleted can be removed.
  if (sections.policies.get(modelId) === undefined) await planning.card(modelId)
  const policy = await command('policy', { modelId, patch: body, from: 'request' })
  return { message: `Policy of ${modelId}: ${policyText(policy)}.`, model_id: modelId, policy }
}
