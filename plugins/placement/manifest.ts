import { BundleService, ClusterService, SessionService, StateService } from '../../kernel/index.js'
import type { Manifest } from '../../kernel/index.js'
import { ModelsService } from '../staging/service.js'
import { verbs } from './cli/verbs.js'
import { errors } from './errors.js'
import { events } from './events.js'
import { routes } from './routes.js'
import { InstanceService } from '../runners/service.js'

/** Everything the plugin declares. */
export const manifest = {
  name: 'placement',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Decides which nodes run a model: checks memory node by node, previews, places and removes.',
  requires: ['runners'],
  after: ['staging'],
  consumes: {
    bundle: BundleService, cluster: ClusterService, session: SessionService, state: StateService,
    instances: InstanceService
  },
  consumesOptional: { models: ModelsService },
  routes, errors, events, verbs
} as const satisfies Manifest
