import { closedObject, ClusterService, type Manifest } from '../../kernel/index.js'
import { InvocationService, SpendingService } from '../capabilities/service.js'
import { RunnersService } from '../runners/service.js'
import { errors } from './errors.js'
import { config } from './settings.js'

export const routes = {
  task: {
    method: 'POST', url: '/upstreams/tasks', authority: 'invoke', members: true, stream: true,
    bodyLimit: 8 * 2 ** 20, summary: 'Answers another node\'s request with a server whose key this node has.',
    body: closedObject({
      model: { type: 'string', minLength: 1, maxLength: 512 }, payload: { type: 'object' }
    }),
    errors: ['not_found', 'no_instance', 'upstream_unavailable', 'upstream_loop', 'provider_error', 'timeout']
  }
} as const

export const manifest = {
  name: 'upstreams', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Passes chats on to servers with OpenAI\'s or Anthropic\'s API, and falls back to other models.',
  requires: ['capabilities', 'runners', 'chat'], after: ['approvals'],
  consumes: { cluster: ClusterService, invocations: InvocationService, runners: RunnersService },
  consumesOptional: { spending: SpendingService },
  config, routes, errors,
  authorities: { external: 'Send chats to servers outside the local network.' },
  conflicts: {
    upstream_down: {
      severity: 'warn', meaning: 'A server of plugins.upstreams cannot be used; its models do not answer.',
      remediation: 'Start it, or correct its address and key in svc.yaml.'
    }
  },
  sections: {
    models: {
      writer: 'node', summary: 'Models that a node answers with servers whose keys it has.',
      value: closedObject({
        context: { type: 'integer', minimum: 1 }, weight: { type: 'number', exclusiveMinimum: 0 },
        problem: { type: ['string', 'null'], maxLength: 400 }
      })
    }
  }
} as const satisfies Manifest
