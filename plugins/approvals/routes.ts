import { closedObject, type RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const

const approval = closedObject({
  id: text, capability: text, command_id: text, by: text, cost: text, asked: text, until: text,
  node: { type: 'string', description: 'Name of the node where the call waits.' }
})

const budget = closedObject({ caller: text, per_day: text, spent: text, node: text })

export const routes = {
  list: {
    method: 'GET', url: '/v1/approvals', authority: 'approve', members: true,
    summary: 'Lists the calls that wait for approval of their cost, and the budgets, of all nodes.',
    reply: closedObject({
      approvals: { type: 'array', items: approval }, budgets: { type: 'array', items: budget },
      failed: {
        type: 'array', description: 'Nodes that did not answer.',
        items: closedObject({ name: text, message: text })
      }
    })
  },
  decide: {
    method: 'POST', url: '/v1/approvals/:id', authority: 'approve', members: true,
    summary: 'Approves or denies the cost of a waiting call.',
    params: closedObject({ id: { type: 'string', pattern: '^apr_[0-9a-f]{12}$' } }),
    body: closedObject({
      decision: { enum: ['approve', 'deny'] },
      reason: {
        type: ['string', 'null'], minLength: 1, maxLength: 200, pattern: '^[^\\p{Cc}]+$',
        description: 'Sent to the caller of a denied call.'
      }
    }, ['decision']),
    reply: closedObject({ decision: { enum: ['approve', 'deny'] }, approval }),
    errors: ['approval_not_found']
  },
  budget: {
    method: 'PUT', url: '/v1/approvals/budgets/:caller', authority: 'approve',
    summary: 'Sets how much a caller may spend on this node per day (UTC) without approval; 0 removes ' +
      'the budget.',
    params: closedObject({
      caller: { type: 'string', minLength: 1, maxLength: 128, pattern: '^[^\\p{Cc}]+$' }
    }),
    body: closedObject({
      per_day: { type: 'string', maxLength: 32, description: 'An amount such as "5 EUR".' }
    }),
    reply: budget,
    errors: ['invalid_request', 'overloaded']
  }
} as const satisfies Record<string, RouteDecl>
