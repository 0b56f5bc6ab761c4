import { durableEvent } from '../../kernel/index.js'
import type { EventDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const strings = { type: 'array', items: text } as const

/** Durable events. None carries a prompt, a text or media. */
export const events = {
  RunnerStatusUpdated: durableEvent(
    'A runner moved on in its lifecycle. Ready to running and back, and loading progress, are left out.',
    { runnerId: text, instanceId: text, modelId: text, status: { type: 'object' } }
  ),
  RunnerFailed: durableEvent('A runner was given up after the attempts made.', {
    runnerId: text,
    instanceId: text,
    modelId: text,
    errorMessage: text,
    errorCode: text,
    attempts: { type: 'integer' }
  }),
  TaskFailed: durableEvent(
    'A task ended without its result through no fault of the request, or after it had begun to answer.',
    { taskId: text, commandId: text, errorType: text, errorMessage: text }
  ),
  InstanceCreated: durableEvent('An instance of a model was placed.', {
    instanceId: text,
    modelId: text,
    nodeIds: strings
  }),
  InstanceDeleted: durableEvent('An instance was removed.', { instanceId: text, modelId: text }),
  InstanceUnloaded: durableEvent('An instance is removed because nobody used it for as long as its ttl.', {
    instanceId: text,
    modelId: text,
    idleSeconds: { type: 'integer' }
  }),
  InstanceFailureRecorded: durableEvent(
    'An instance cannot serve; the record is in /state under instanceFailures.',
    { instanceId: text, modelId: text, errorCode: text, errorMessage: text, affectedNodeIds: strings }
  )
} as const satisfies Record<string, EventDecl>
