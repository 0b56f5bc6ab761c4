import { admittedMembers, closedObject, type RouteDecl } from '../../kernel/index.js'
import { usageRoute } from './usage/declarations.js'

const text = { type: 'string' } as const
const textOrNull = { type: ['string', 'null'] } as const

/** Token record in replies; never includes the secret. */
const record = closedObject({
  id: text, label: text, authorities: { type: 'array', items: text }, created: text, expires: textOrNull,
  lastUsedDay: textOrNull, revoked: { type: 'boolean' }, by: text
})

export const routes = {
  list: {
    method: 'GET', url: '/v1/tokens', summary: 'Lists the tokens of this node, without their secrets.',
    authority: 'operator',
    reply: closedObject({ tokens: { type: 'array', items: record } })
  },
  create: {
    method: 'POST', url: '/v1/tokens',
    summary: 'Creates a token with at most the authorities of its creator. Only this response contains ' +
      'the secret.',
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
      expires: {
        type: ['string', 'null'], format: 'date-time', maxLength: 40,
        description: 'When it expires, at the latest with the token that creates it; null for the ' +
          'same expiry.'
      }
    }, ['label', 'authorities']),
    reply: closedObject({ token: text, record }),
    errors: ['invalid_request', 'missing_grant']
  },
  revoke: {
    method: 'DELETE', url: '/v1/tokens/:id', summary: 'Revokes a token immediately and permanently.',
    authority: 'operator',
    params: closedObject({ id: { type: 'string', minLength: 1, maxLength: 64 } }),
    reply: closedObject({ id: text, revoked: { const: true }, admitted: admittedMembers }),
    errors: ['token_not_found']
  },
  usage: usageRoute
} as const satisfies Record<string, RouteDecl>
