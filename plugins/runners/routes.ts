import { closedObject, type RouteDecl } from '../../kernel/index.js'
import { LINKS } from './routing/explain.js'

const text = { type: 'string' } as const
const textOrNull = { type: ['string', 'null'] } as const
const uuid = { type: 'string', pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' } as const
const id = { type: 'string', minLength: 1, maxLength: 128 } as const

export const routes = {
  cancel: {
    method: 'POST', url: '/v1/cancel/:command_id',
    summary: 'Cancels a running command of any node by the id in its x-svc-command-id header.', members: true,
    authority: 'invoke', params: closedObject({ command_id: id }),
    reply: closedObject({ message: text, command_id: text }), errors: ['command_unknown', 'missing_grant']
  },
  availability: {
    method: 'GET', url: '/models/:model_id/availability',
    summary: 'Checks each link that a model needs to answer; the first broken one has a remedy.',
    authority: 'read', params: closedObject({ model_id: { type: 'string', minLength: 1, maxLength: 512 } }),
    reply: closedObject({
      model_id: text, available: { type: 'boolean' }, broken_link: textOrNull, message: textOrNull,
      remedy: textOrNull,
      links: {
        type: 'array',
        items: closedObject({
          link: { enum: LINKS }, ok: { type: ['boolean', 'null'] }, message: text, remedy: textOrNull,
          code: textOrNull
        })
      }
    })
  },
  task: {
    method: 'POST', url: '/runners/tasks',
    summary: 'Runs a task of another node on a runner of this node; for cluster members only.', members: true,
    authority: 'invoke', stream: true, bodyLimit: 8 * 1024 * 1024, produces: 'application/vnd.svc.task',
    uploads: { 'application/vnd.svc.task': { type: 'string', format: 'binary' } },
    body: closedObject({
      taskId: uuid, commandId: id, modelId: { type: 'string', minLength: 1, maxLength: 256 }, instanceId: id,
      runnerId: id, capability: id, task: closedObject({ kind: id, payload: { type: 'object' } })
    }),
    errors: ['not_found', 'overloaded']
  },
  donor: {
    method: 'POST', url: '/runners/donors',
    summary: 'Tunnels a connection to the donor of an instance on this node; for its driver only.',
    members: true, authority: 'invoke', stream: true, produces: 'application/octet-stream',
    body: closedObject({ instanceId: id, runnerId: id, feedId: uuid, run: uuid }),
    errors: ['not_found', 'instance_lost', 'overloaded']
  },
  gang: {
    method: 'POST', url: '/runners/gangs',
    summary: 'Runs a rank of a model on several nodes until the request ends; for its first rank only.',
    members: true, authority: 'invoke', stream: true, produces: 'application/octet-stream',
    body: closedObject({
      instanceId: id, runnerId: id, program: id, headPort: { type: 'integer', minimum: 1, maximum: 65535 },
      run: uuid, headAddress: { type: 'string', pattern: '^\\d{1,3}(\\.\\d{1,3}){3}$' }
    }, ['instanceId', 'runnerId', 'program', 'headPort']),
    errors: ['not_found', 'instance_lost']
  },
  feed: {
    method: 'GET', url: '/runners/donors/:feed_id',
    summary: 'The bytes that the driver of an instance sends to a donor; for that donor only.', members: true,
    authority: 'invoke', stream: true, produces: 'application/octet-stream',
    params: closedObject({ feed_id: uuid }), errors: ['not_found']
  }
} as const satisfies Record<string, RouteDecl>
