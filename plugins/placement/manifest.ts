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
        'Models that the cluster places automatically, one instance each, wherever they fit. ' +
        'Default: every model that ships with an enabled plugin. An empty list places none. The list of ' +
        'the master counts.'
    },
    drain_seconds: {
      type: 'integer',
      minimum: 0,
      maximum: 3600,
      default: 0,
      description: 'Default grace period for the open requests of an instance that DELETE stops, seconds.'
    },
    on_demand: {
      type: 'boolean',
      default: false,
      description: 'A request for a known model that is not placed places it and waits for it.'
    },
    on_demand_ttl_seconds: {
      type: 'integer',
      minimum: 1,
      maximum: 2_592_000,
      default: 300,
      description: 'Idle time after which a model that a request placed is unloaded, seconds.'
    }
  }
} as const

const text = { type: 'string' } as const

const events = {
  PlacementForced: durableEvent('An instance was placed without a memory check.', {
    instanceId: text, modelId: text, nodeIds: { type: 'array', items: text },
    by: { type: 'string', description: 'id of the caller' }
  }),
  InstanceWaiting: durableEvent(
    'A lost or wanted instance waits for a place; it is placed automatically.',
    { instanceId: text, modelId: text, reason: text, message: text }
  ),
  NodeDrained: durableEvent('An operator drained a node: its instances move to other nodes.',
    { nodeId: text, name: text, by: text }),
  NodeUndrained: durableEvent('An operator ended the drain of a node.',
    { nodeId: text, name: text, by: text })
} as const satisfies Record<string, EventDecl>

export const manifest = {
  name: 'placement',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Decides which nodes run a model, and replaces lost instances.',
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
    waitingInstances: 'Instances that wait for a place, with the reason.',
    drainedNodes: 'Drained nodes by install id, with the time.'
  }
} as const satisfies Manifest

export type PlacementContext = Context<typeof manifest>
