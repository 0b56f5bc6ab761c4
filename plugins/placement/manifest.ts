import { BundleService, ClusterService, SessionService, StateService } from '../../kernel/index.js'
import type { Manifest } from '../../kernel/index.js'
import { ModelsService } from '../staging/service.js'
import { verbs } from './cli/verbs.js'
import { commands } from './commands.js'
import { config } from './config.js'
import { errors } from './errors.js'
import { events } from './events.js'
import { routes } from './routes.js'
import { sections } from './sections.js'
import { InstanceService } from '../runners/service.js'

/** Everything the plugin declares. */
export const manifest = {
  name: 'placement',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Decides which nodes run a model, and places anew what was lost.',
  requires: ['runners'],
  after: ['staging'],
  consumes: {
    bundle: BundleService, cluster: ClusterService, session: SessionService, state: StateService,
    instances: InstanceService
  },
  consumesOptional: { models: ModelsService },
  config, sections, commands, routes, errors, events, verbs,
  state: { waitingInstances: 'Instances that are to be placed as soon as that is possible, and why not yet.' }
} as const satisfies Manifest
