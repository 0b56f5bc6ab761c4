import type { RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const

const approval = {
  type: 'object', additionalProperties: false,
  required: ['id', 'capability', 'command_id', 'by', 'cost', 'asked', 'until', 'node'],
  properties: {
    id: text, capability: text, command_id: text, by: text, cost: text, asked: text, until: text,
    node: { type: 'string', description: 'Name of the node where the call waits.' }
  }
} as const

const budget = {
  type: 'object', additionalProperties: false, required: ['caller', 'per_day', 'spent', 'node'],
  properties: { caller: text, per_day: text, spent: text, node: text }
} as const

/** HTTP routes of this plugin; the handlers are in `index.ts`. */
export const routes = {
  list: {
    method: 'GET', url: '/v1/approvals', authority: 'approve', members: true,
    summary: 'The calls that wait for somebody to approve what they cost, and the budgets, of all nodes.',
    reply: {
      type: 'object', additionalProperties: false, required: ['approvals', 'budgets', 'failed'],
      properties: {
        approvals: { type: 'array', items: approval },
        budgets: { type: 'array', items: budget },
        failed: {
          type: 'array', description: 'Nodes that did not answer.',
          items: {
            type: 'object', additionalProperties: false, required: ['name', 'message'],
            properties: { name: text, message: text }
          }
        }
      }
    }
  },
  decide: {
    method: 'POST', url: '/v1/approvals/:id', authority: 'approve', members: true,
    summary: 'Approves what a waiting call costs, so that it is made, or denies it.',
    params: {
      type: 'object', additionalProperties: false, required: ['id'],
      properties: { id: { type: 'string', pattern: '^apr_[0-9a-f]{12}$' } }
    },
    body: {
      type: 'object', additionalProperties: false, required: ['decision'],
      properties: {
        decision: { enum: ['approve', 'deny'] },
        reason: {
          type: ['string', 'null'], minLength: 1, maxLength: 200, pattern: '^[^\\p{Cc}]+$',
          description: 'Told to the caller of a call that is denied.'
        }
      }
    },
    reply: {
      type: 'object', additionalProperties: false, required: ['decision', 'approval'],
      properties: { decision: { enum: ['approve', 'deny'] }, approval }
    },
    errors: ['approval_not_found']
  },
  budget: {
    method: 'PUT', url: '/v1/approvals/budgets/:caller', authority: 'approve',
    summary: 'Sets what a caller may spend at this node in a day (UTC) without being asked; 0 ends it.',
    params: {
      type: 'object', additionalProperties: false, required: ['caller'],
      properties: { caller: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[^\\p{Cc}]+$' } }
    },
    body: {
      type: 'object', additionalProperties: false, required: ['per_day'],
      properties: { per_day: { type: 'string', maxLength: 32, description: 'An amount such as "5 EUR".' } }
    },
    reply: budget,
    errors: ['invalid_request', 'overloaded']
  }
} as const satisfies Record<string, RouteDecl>
