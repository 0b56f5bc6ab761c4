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

export const routes = {
  list: {
    method: 'GET', url: '/v1/approvals', authority: 'approve', members: true,
    summary: 'Lists the calls that wait for approval of their cost, and the budgets, of all nodes.',
    reply: {
      type: 'object', additionalProperties: false, required: ['approvals', 'budgets', 'failed'],
      properties: {
        approvals: { type: 'array', items: approval }, budgets: { type: 'array', items: budget },
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
    summary: 'Approves or denies the cost of a waiting call.',
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
          description: 'Sent to the caller of a denied call.'
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
    summary: 'Sets how much a caller may spend on this node per day (UTC) without approval; 0 removes ' +
      'the budget.',
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
