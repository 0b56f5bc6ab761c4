import type { RouteDecl } from '../../kernel/index.js'
import { LINKS } from './routing/chain.js'

const uuid = { type: 'string', pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' } as const
const id = { type: 'string', minLength: 1, maxLength: 128 } as const

/** HTTP routes of this plugin; the handlers are in `index.ts`. */
export const routes = {
  cancel: {
    method: 'POST',
    url: '/v1/cancel/:command_id',
    summary: 'Cancels a running command of any node by the id in its x-svc-command-id header.',
    members: true,
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
  },
  availability: {
    method: 'GET',
    url: '/models/:model_id/availability',
    summary: 'What a model needs to answer, link by link, and what mends the first that is broken.',
    authority: 'read',
    params: {
      type: 'object',
      additionalProperties: false,
      required: ['model_id'],
      properties: { model_id: { type: 'string', minLength: 1, maxLength: 512 } }
    },
    reply: {
      type: 'object',
      additionalProperties: false,
      required: ['model_id', 'available', 'broken_link', 'message', 'remedy', 'links'],
      properties: {
        model_id: { type: 'string' },
        available: { type: 'boolean' },
        broken_link: { type: ['string', 'null'] },
        message: { type: ['string', 'null'] },
        remedy: { type: ['string', 'null'] },
        links: {
          type: 'array',
          items: {
            type: 'object',
            additionalProperties: false,
            required: ['link', 'ok', 'message', 'remedy'],
            properties: {
              link: { enum: LINKS },
              ok: { type: ['boolean', 'null'] },
              message: { type: 'string' },
              remedy: { type: ['string', 'null'] }
            }
          }
        }
      }
    }
  },
  task: {
    method: 'POST',
    url: '/runners/tasks',
    summary: 'Runs a task of another node on a runner of this one; for members of the cluster only.',
    members: true,
    authority: 'invoke',
    stream: true,
    bodyLimit: 8 * 1024 * 1024,
    produces: 'application/vnd.svc.task',
    body: {
      type: 'object',
      additionalProperties: false,
      required: ['taskId', 'commandId', 'modelId', 'instanceId', 'runnerId', 'capability', 'task'],
      properties: {
        taskId: { type: 'string', pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' },
        commandId: id,
        modelId: { type: 'string', minLength: 1, maxLength: 256 },
        instanceId: id,
        runnerId: id,
        capability: id,
        task: {
          type: 'object',
          additionalProperties: false,
          required: ['kind', 'payload'],
          properties: { kind: id, payload: { type: 'object' } }
        }
      }
    },
    errors: ['not_found', 'overloaded']
  },
  donor: {
    method: 'POST',
    url: '/runners/donors',
    summary: 'Carries a connection to the donor of an instance on this node; for its driver only.',
    members: true,
    authority: 'invoke',
    stream: true,
    produces: 'application/octet-stream',
    body: {
      type: 'object',
      additionalProperties: false,
      required: ['instanceId', 'runnerId', 'feedId'],
      properties: { instanceId: id, runnerId: id, feedId: uuid }
    },
    errors: ['not_found', 'instance_lost', 'overloaded']
  },
  feed: {
    method: 'GET',
    url: '/runners/donors/:feed_id',
    summary: 'What the driver of an instance says on a connection to a donor; for that donor only.',
    members: true,
    authority: 'invoke',
    stream: true,
    produces: 'application/octet-stream',
    params: {
      type: 'object', additionalProperties: false, required: ['feed_id'], properties: { feed_id: uuid }
    },
    errors: ['not_found']
  }
} as const satisfies Record<string, RouteDecl>
