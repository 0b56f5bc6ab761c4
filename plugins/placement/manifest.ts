import {
  ClusterService, DeclarationService, durableEvent, SessionService, StateService
} from '../../kernel/index.js'
import type { Context, EventDecl, Manifest } from '../../kernel/index.js'
import { BundleService, InstanceService, MachineService } from '../runners/service.js'
import { ModelsService } from '../staging/service.js'
import { verbs } from './cli/verbs.js'
import { errors } from './errors.js'
import { routes } from './routes.js'
import { PlacementService } from './service.js'
import { tools } from './tools/tools.js'
import { commands, sections } from './waitlist.js'

const config = {
  type: 'object',
  additionalProperties: false,
  properties: {
    autoplace: {
      type: 'array',
      items: { type: 'string', minLength: 3, maxLength: 200, pattern: '^[^/\\s]+/[^/\\s]+$' },
      uniqueItems: true,
      description:
        'Models the cluster places by itself, each once, where they fit. Left out: every model that ships ' +
        'with an enabled plugin. An empty list places none. The list of the master counts.'
    },
    drain_seconds: {
      type: 'integer',
      minimum: 0,
      maximum: 3600,
      default: 0,
      description: 'How long an instance that DELETE stops may go on with the requests it has where the ' +
        'request does not say it, seconds.'
    },
    on_demand: {
      type: 'boolean',
      default: false,
      description: 'A request for a model that is known and not placed places it and waits for it.'
    },
    on_demand_ttl_seconds: {
      type: 'integer',
      minimum: 1,
      maximum: 2_592_000,
      default: 300,
      description: 'What was placed by a request is unloaded after so long without another one, seconds.'
    }
  }
} as const

const text = { type: 'string' } as const

const events = {
  PlacementForced: durableEvent('Somebody had an instance placed without the check of memory.', {
    instanceId: text, modelId: text, nodeIds: { type: 'array', items: text },
    by: { type: 'string', description: 'id of the caller' }
  }),
  InstanceWaiting: durableEvent(
    'An instance that was lost, or is to be there, waits for a place; it gets one by itself.',
    { instanceId: text, modelId: text, reason: text, message: text }
  ),
  NodeDrained: durableEvent('An operator has a node run no models: what it runs moves to others.',
    { nodeId: text, name: text, by: text }),
  NodeUndrained: durableEvent('An operator lets a node run models again.',
    { nodeId: text, name: text, by: text })
} as const satisfies Record<string, EventDecl>

export const manifest = {
  name: 'placement',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Decides which nodes run a model, and places anew what was lost.',
  requires: ['runners'],
  after: ['staging'],
  consumes: {
    bundle: BundleService, cluster: ClusterService, declarations: DeclarationService, session: SessionService,
    state: StateService,
    instances: InstanceService, machine: MachineService
  },
  consumesOptional: { models: ModelsService },
  provides: { keeping: PlacementService },
  config, sections, commands, routes, errors, events, verbs, tools,
  state: {
    waitingInstances: 'Instances that are to be placed as soon as that is possible, and why not yet.',
    drainedNodes: 'Nodes by install id that run no models until an operator lets them again, since when.'
  }
} as const satisfies Manifest

export type PlacementContext = Context<typeof manifest>
