import { closedObject, ClusterService, durableEvent, type Manifest } from '../../kernel/index.js'
import { MAX_APPROVAL_SECONDS, SpendingService } from '../capabilities/service.js'
import { routes } from './routes.js'

const text = { type: 'string' } as const

export const manifest = {
  name: 'approvals', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Holds calls that cost more than their caller may spend until they are approved.',
  requires: ['capabilities'], consumes: { cluster: ClusterService }, provides: { spending: SpendingService },
  config: closedObject({
    wait_seconds: {
      type: 'integer', minimum: 1, maximum: MAX_APPROVAL_SECONDS, default: 120,
      description: 'Longest wait of a call for approval, seconds.'
    }
  }, []),
  routes,
  errors: {
    approval_not_found: {
      status: 404, retryable: false, message: 'No call waits for that approval.',
      remedy: '`svc approve` lists the pending approvals; this one may have been decided, cancelled ' +
        'or timed out.'
    }
  },
  events: {
    ApprovalAsked: durableEvent('A call waits for approval of its cost; `by` is its caller.',
      { id: text, capability: text, by: text, cost: text }),
    ApprovalDecided: durableEvent('The cost of a call was approved or denied by `by`.',
      { id: text, decision: { enum: ['approve', 'deny'] }, by: text }),
    ApprovalExpired: durableEvent('The cost of a call was not approved in time.', { id: text })
  },
  verbs: {
    approve: {
      heading: 'Run a cluster',
      summary: 'list the calls that wait for approval of their cost; approve or deny one; set a budget',
      args: '[id|ls|budget] [caller] [amount]',
      options: [['--deny', 'deny it'], ['--reason <text>', 'reason of a denial, sent to the caller']],
      examples: [
        'svc approve', 'svc approve apr_0123456789ab',
        'svc approve --deny apr_0123456789ab --reason "too dear"',
        'svc approve budget app_0123456789ab "5 EUR"'
      ],
      load: () => import('./cli/approve.js')
    }
  }
} as const satisfies Manifest
