import type { EventDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const strings = { type: 'array', items: text } as const

function durable<const P extends Record<string, unknown>> (summary: string, properties: P) {
  return {
    plane: 'durable',
    summary,
    payload: {
      type: 'object',
      additionalProperties: false,
      required: Object.keys(properties) as (keyof P)[],
      properties
    }
  } as const
}

/** Durable events. None carries a prompt, a text or media. */
export const events = {
  RunnerStatusUpdated: durable(
    'A runner moved on in its lifecycle. Ready to running and back, and loading progress, are left out.',
    { runnerId: text, instanceId: text, modelId: text, status: { type: 'object' } }
  ),
  RunnerFailed: durable('A runner was given up after the attempts made.', {
    runnerId: text,
    instanceId: text,
    modelId: text,
    errorMessage: text,
    attempts: { type: 'integer' }
  }),
  TaskFailed: durable(
    'A task ended without its result through no fault of the request, or after it had begun to answer.',
    { taskId: text, commandId: text, errorType: text, errorMessage: text }
  ),
  InstanceCreated: durable('An instance of a model was placed.', {
    instanceId: text,
    modelId: text,
    nodeIds: strings
  }),
  InstanceDeleted: durable('An instance was removed.', { instanceId: text, modelId: text }),
  InstanceFailureRecorded: durable(
    'An instance cannot serve; the record is in /state under instanceFailures.',
    { instanceId: text, modelId: text, errorCode: text, errorMessage: text, affectedNodeIds: strings }
  )
} as const satisfies Record<string, EventDecl>
