import {
  CallerService, ClusterService, CommandService, DeclarationService, LogRingService, SessionService,
  StateService, TracerService, VitalsService
} from '../../kernel/index.js'
import type { Manifest } from '../../kernel/index.js'
import { CallsService } from '../capabilities/service.js'
import { ModelsService } from '../staging/service.js'
import { config, conflicts, errors, events } from './declarations.js'
import { commands } from './instances/commands.js'
import { sections } from './instances/sections.js'
import { routes } from './routes.js'
import {
  BundleService, InstanceService, MachineService, RunnersService, RunnerWorkService
} from './service.js'

export const manifest = {
  name: 'runners',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Runs models in child processes, one per instance, and routes requests to them.',
  config,
  after: ['capabilities', 'staging'],
  consumesOptional: { calls: CallsService, models: ModelsService, state: StateService },
  consumes: {
    callers: CallerService, commands: CommandService, declarations: DeclarationService,
    session: SessionService, cluster: ClusterService, tracers: TracerService, logs: LogRingService,
    vitals: VitalsService
  },
  provides: {
    bundle: BundleService, instances: InstanceService, machine: MachineService, runners: RunnersService,
    work: RunnerWorkService
  },
  checks: {
    models: {
      summary: 'Memory, and models that are placed and do not answer.',
      load: async () => ({ default: (await import('./instances/report.js')).doctor })
    }
  },
  status: {
    instances: {
      summary: 'Instances, and models that cannot be asked.',
      load: async () => ({ default: (await import('./instances/report.js')).status })
    }
  },
  tools: {
    last_failure: {
      summary: 'The newest requests that failed, with their ids, the reason and what mends it.',
      args: {
        type: 'object', additionalProperties: false,
        properties: {
          model: { type: 'string', minLength: 1, maxLength: 200, description: 'Only of this model.' }
        }
      },
      load: () => import('./tools/last-failure.js')
    }
  },
  variables: {
    SVC_WARMUP_DEADLINE_SECONDS: 'Longest time of a warmup, in place of the one that follows from the model.'
  },
  routes,
  events,
  errors,
  conflicts,
  sections,
  commands,
  stateWhereabouts: ['hostsByNode', 'donorEndpoints'],
  stateReadings: ['tasks'],
  state: {
    instances: 'Instances by id: which model runs where.',
    runners: 'Status of each runner a live instance names.',
    tasks: 'Requests being served by any node and, for half a minute, those that ended; without content.',
    instanceFailures: 'Why instances could not serve, newest first, at most 64.',
    nodeSystem: 'Adds the memory of each runner: what it has, and what placement counts for it.',
    nodeResources:
      'Adds the backends found or declared, also by engine, and what each engine with a program drives.'
  }
} as const satisfies Manifest
