import type { RouteDecl } from '../../kernel/index.js'

/** HTTP routes of this plugin; the handlers are in `index.ts`. */
export const routes = {
  cancel: {
    method: 'POST',
    url: '/v1/cancel/:command_id',
    summary: 'Cancels a running command by the id in its x-svc-command-id header.',
    authority: 'invoke',
    params: {
      type: 'object',
      additionalProperties: false,
      required: ['command_id'],
      properties: { command_id: { type: 'string', minLength: 1, maxLength: 128 } }
    },
    reply: {
      type: 'object',
      additionalProperties: false,
      required: ['message', 'command_id'],
      properties: { message: { type: 'string' }, command_id: { type: 'string' } }
    },
    errors: ['command_unknown', 'missing_grant']
  }
} as const satisfies Record<string, RouteDecl>
