import { admittedMembers } from '../../kernel/index.js'
import type { RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const textOrNull = { type: ['string', 'null'] } as const

/** A token as it is shown: never the secret. */
const record = {
  type: 'object',
  additionalProperties: false,
  required: ['id', 'label', 'authorities', 'created', 'expires', 'lastUsedDay', 'revoked', 'by'],
  properties: {
    id: text, label: text, authorities: { type: 'array', items: text }, created: text, expires: textOrNull,
    lastUsedDay: textOrNull, revoked: { type: 'boolean' }, by: text
  }
} as const

/** HTTP routes of this plugin; the handlers are in `index.ts`. */
export const routes = {
  list: {
    method: 'GET',
    url: '/v1/tokens',
    summary: 'Lists the tokens of this node, without their secrets.',
    authority: 'operator',
    reply: {
      type: 'object', additionalProperties: false, required: ['tokens'],
      properties: { tokens: { type: 'array', items: record } }
    }
  },
  create: {
    method: 'POST',
    url: '/v1/tokens',
    summary: 'Makes a token that may do no more than its maker. Its secret is in this answer only.',
    authority: 'operator',
    body: {
      type: 'object',
      additionalProperties: false,
      required: ['label', 'authorities'],
      properties: {
        label: {
          type: 'string',
          minLength: 1,
          maxLength: 100,
          pattern: '^[^\\p{Cc}]+$',
          description: 'What it is for.'
        },
        authorities: {
          type: 'array',
          minItems: 1,
          maxItems: 32,
          uniqueItems: true,
          items: { type: 'string', minLength: 1, maxLength: 64 }
        },
        expires: {
          type: ['string', 'null'],
          format: 'date-time',
          maxLength: 40,
          description: 'When it ends, not after the token that makes it; null for as long as that.'
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
    method: 'DELETE',
    url: '/v1/tokens/:id',
    summary: 'Revokes a token at once and for good.',
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
