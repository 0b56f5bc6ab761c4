import type { FromSchema } from '../../kernel/index.js'
import type { RoleStatus } from '../placement/service.js'
import type { routes } from './routes.js'
import { AUTO } from './voice/choice.js'

export interface StatusFacts {
  readonly enabled: boolean
  readonly model: string | null
  /** Status of the instance of the model that words the answers; null if there is none. */
  readonly kept: RoleStatus | null
  /** Consecutive failed probes, as counted by the master. */
  readonly failed: number
}

export type StatusBody = FromSchema<(typeof routes.status)['reply']>

/** The steward's state. If there is no model, it is ready at once, because the reader answers. */
export function stateOf ({ enabled, model, kept, failed }: StatusFacts): StatusBody['state'] {
  if (!enabled) return 'disabled'
  if (kept === null) return model === null || model === AUTO ? 'ready' : 'starting'
  if (kept.state === 'downloading') return 'downloading'
  if (kept.state === 'failed' || kept.problem !== undefined) return 'degraded'
  if (kept.state !== 'ready') return 'starting'
  return failed > 0 ? 'degraded' : 'ready'
}

export function statusOf (facts: StatusFacts): StatusBody {
  const { enabled, model, kept } = facts
  const state = stateOf(facts)
  const chosen = kept?.modelId ?? (model === AUTO ? null : model)
  return {
    enabled, present: enabled && kept !== null && kept.state !== 'waiting',
    ready: state === 'ready' || state === 'degraded', steward_model: enabled ? chosen : null,
    instance_id: enabled ? kept?.instanceId ?? null : null, state,
    reason: enabled ? kept?.problem ?? null : null
  }
}
