import { admittedMembers, type RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const textOrNull = { type: ['string', 'null'] } as const

/** Token record in replies; never includes the secret. */
const record = {
  type: 'object', additionalProperties: false,
  required: ['id', 'label', 'authorities', 'created', 'expires', 'lastUsedDay', 'revoked', 'by'],
  properties: {
    id: text, label: text, authorities: { type: 'array', items: text }, created: text, expires: textOrNull,
    lastUsedDay: textOrNull, revoked: { type: 'boolean' }, by: text
  }
} as const

export const routes = {
  list: {
    method: 'GET', url: '/v1/tokens', summary: 'Lists the tokens of this node, without their secrets.',
    authority: 'operator',
    reply: {
      type: 'object', additionalProperties: false, required: ['tokens'],
      properties: { tokens: { type: 'array', items: record } }
    }
  },
  create: {
    method: 'POST', url: '/v1/tokens',
    summary: 'Creates a token with at most the authorities of its creator. Only this response contains ' +
      'the secret.',
    authority: 'operator',
    body: {
      type: 'object', additionalProperties: false, required: ['label', 'authorities'],
      properties: {
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
      }
    },
    reply: {
      type: 'object', additionalProperties: false, required: ['token', 'record'],
      properties: { token: text, record }
    },
    errors: ['invalid_request', 'missing_grant']
  },
  revoke: {
    method: 'DELETE', url: '/v1/tokens/:id', summary: 'Revokes a token immediately and permanently.',
    authority: 'operator',
    params: {
      type: 'object', additionalProperties: false, required: ['id'],
      properties: { id: { type: 'string', minLength: 1, maxLength: 64 } }
    },
    reply: {
      type: 'object', additionalProperties: false, required: ['id', 'revoked', 'admitted'],
      properties: { id: text, revoked: { const: true }, admitted: admittedMembers }
    },
    errors: ['token_not_found']
  }
} as const satisfies Record<string, RouteDecl>
