import { durableEvent } from '../../kernel/index.js'
import type { EventDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const

/** Durable events of this plugin. */
export const events = {
  PlacementForced: durableEvent('Somebody had an instance placed without the check of memory.', {
    instanceId: text, modelId: text, nodeIds: { type: 'array', items: text },
    by: { type: 'string', description: 'id of the caller' }
  }),
  InstanceWaiting: durableEvent(
    'An instance that was lost, or is to be there, waits for a place; it gets one by itself.',
    { instanceId: text, modelId: text, reason: text, message: text }
  )
} as const satisfies Record<string, EventDecl>
