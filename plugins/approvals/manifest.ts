import { ClusterService, durableEvent } from '../../kernel/index.js'
import { MAX_APPROVAL_SECONDS, SpendingService } from '../capabilities/service.js'
import { routes } from './routes.js'
import type { Manifest } from '../../kernel/index.js'

const text = { type: 'string' } as const

/** Everything the plugin declares. */
export const manifest = {
  name: 'approvals',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Has calls that cost more than their caller may spend wait for somebody to approve that.',
  requires: ['capabilities'],
  consumes: { cluster: ClusterService },
  provides: { spending: SpendingService },
  config: {
    type: 'object', additionalProperties: false,
    properties: {
      wait_seconds: {
        type: 'integer', minimum: 1, maximum: MAX_APPROVAL_SECONDS, default: 120,
        description: 'How long a call waits for an approval.'
      }
    }
  },
  routes,
  errors: {
    approval_not_found: {
      status: 404,
      retryable: false,
      message: 'No call waits for that approval.',
      remedy: '`svc approve` lists those that wait; it may have been decided, given up or timed out.'
    }
  },
  events: {
    ApprovalAsked: durableEvent('A call waits for somebody to approve what it costs; `by` is its caller.',
      { id: text, capability: text, by: text, cost: text }),
    ApprovalDecided: durableEvent('Somebody (`by`) approved what a call costs, or denied it.',
      { id: text, decision: { enum: ['approve', 'deny'] }, by: text }),
    ApprovalExpired: durableEvent('Nobody approved in time what a call costs.', { id: text })
  },
  verbs: {
    approve: {
      heading: 'Run a cluster',
      summary: 'list the calls that wait because of what they cost; approve or deny one; set a budget',
      args: '[id|ls|budget] [caller] [amount]',
      options: [
        ['--deny', 'deny it'],
        ['--reason <text>', 'why; told to the caller of a call that is denied']
      ],
      examples: [
        'svc approve', 'svc approve apr_0123456789ab',
        'svc approve --deny apr_0123456789ab --reason "too dear"',
        'svc approve budget app_0123456789ab "5 EUR"'
      ],
      load: () => import('./cli/approve.js')
    }
  }
} as const satisfies Manifest
