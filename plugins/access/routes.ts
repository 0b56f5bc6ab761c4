import { admittedMembers, closedObject, type RouteDecl } from '../../kernel/index.js'
import { limitsSchema } from './limits.js'
import { usageRoute } from './usage/declarations.js'

const text = { type: 'string' } as const
const textOrNull = { type: ['string', 'null'] } as const

/** Token record in replies; never includes the secret. */
const record = closedObject({
  id: text, label: text, authorities: { type: 'array', items: text },
  models: { type: ['array', 'null'], items: text, description: 'The only models; null for no limit.' },
  created: text, expires: textOrNull, lastUsedDay: textOrNull, revoked: { type: 'boolean' }, by: text,
  node: { type: ['string', 'null'], description: 'The only node that accepts it; null for every node.' },
  replaces: textOrNull, limits: { anyOf: [limitsSchema, { type: 'null' }] }
})
const params = closedObject({ id: { type: 'string', minLength: 1, maxLength: 64 } })

export const routes = {
  list: {
    method: 'GET', url: '/v1/tokens',
    summary: 'Lists the keys of the cluster and the tokens of this node, without secrets.',
    authority: 'operator',
    reply: closedObject({ tokens: { type: 'array', items: record } })
  },
  create: {
    method: 'POST', url: '/v1/tokens',
    summary: 'Creates a token that every node accepts, with at most the rights of its creator. Only this ' +
      'response contains the secret.',
    authority: 'operator',
    body: closedObject({
      label: {
        type: 'string', minLength: 1, maxLength: 100, pattern: '^[^\\p{Cc}]+$',
        description: 'What the token is for.'
      },
      authorities: {
        type: 'array', minItems: 1, maxItems: 32, uniqueItems: true,
        items: { type: 'string', minLength: 1, maxLength: 64 }
      },
      models: {
        type: 'array', minItems: 1, maxItems: 32, uniqueItems: true,
        items: { type: 'string', minLength: 1, maxLength: 200 },
        description: 'Ids or aliases of the only models it may use; all of its creator\'s when absent. ' +
          'With models, only the authorities read, invoke and external are possible.'
      },
      limits: {
        ...limitsSchema, minProperties: 1,
        description: 'Limits over all nodes; such a token may only have the same authorities.'
      },
      local: { type: 'boolean', description: 'True for a token that only this node accepts.' },
      expires: {
        type: ['string', 'null'], format: 'date-time', maxLength: 40,
        description: 'When it expires, at the latest with the token that creates it; null for the ' +
          'same expiry.'
      }
    }, ['label', 'authorities']),
    reply: closedObject({ token: text, record }),
    errors: ['invalid_request', 'missing_grant', 'model_not_allowed', 'too_many_keys', 'no_master']
  },
  rotate: {
    method: 'POST', url: '/v1/tokens/:id/rotate',
    summary: 'Creates a key with the rights of another one, which ends after an overlap. Only this ' +
      'response contains the secret.',
    authority: 'operator', params,
    body: closedObject({
      overlap_seconds: {
        type: 'integer', minimum: 0, maximum: 2_592_000, default: 86_400,
        description: 'How long both are valid; 86,400 when absent.'
      }
    }, []),
    reply: closedObject({ token: text, record, replaces: text, ends: text }),
    errors: ['invalid_request', 'missing_grant', 'token_not_found', 'token_replaced', 'too_many_keys']
  },
  revoke: {
    method: 'DELETE', url: '/v1/tokens/:id', summary: 'Revokes a token immediately and permanently.',
    authority: 'operator',
    params,
    reply: closedObject({ id: text, revoked: { const: true }, admitted: admittedMembers }),
    errors: ['token_not_found']
  },
  usage: usageRoute
} as const satisfies Record<string, RouteDecl>
