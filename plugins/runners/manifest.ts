import {
  CallerService, closedObject, ClusterService, CommandService, DeclarationService, LogRingService,
  SessionService, StateService, TracerService, VitalsService, type Manifest
} from '../../kernel/index.js'
import { CallsService } from '../capabilities/service.js'
import { ModelsService } from '../staging/service.js'
import { config, conflicts, errors, events } from './declarations.js'
import { commands } from './instances/commands.js'
import { sections } from './instances/sections.js'
import { routes } from './routes.js'
import {
  BundleService, DriverService, InstanceService, MachineService, RunnersService, RunnerWorkService
} from './service.js'

export const manifest = {
  name: 'runners', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Runs models in child processes, one per instance, and routes requests to them.', config,
  after: ['capabilities', 'staging'],
  consumesOptional: { calls: CallsService, models: ModelsService, state: StateService },
  consumes: {
    callers: CallerService, commands: CommandService, declarations: DeclarationService,
    session: SessionService, cluster: ClusterService, tracers: TracerService, logs: LogRingService,
    vitals: VitalsService
  },
  provides: {
    bundle: BundleService, drivers: DriverService, instances: InstanceService, machine: MachineService,
    runners: RunnersService,
    work: RunnerWorkService
  },
  checks: {
    models: {
      summary: 'Memory, and placed models that do not answer.',
      load: async () => ({ default: (await import('./instances/report.js')).doctor })
    }
  },
  status: {
    instances: {
      summary: 'Instances, and unavailable models.',
      load: async () => ({ default: (await import('./instances/report.js')).status })
    }
  },
  tools: {
    last_failure: {
      summary: 'The newest failed requests, with their ids, reason and remedy.', finds: { past: true },
      args: closedObject({
        model: { type: 'string', minLength: 1, maxLength: 200, description: 'Only of this model.' }
      }, []),
      load: () => import('./tools/last-failure.js')
    }
  },
  variables: { SVC_WARMUP_DEADLINE_SECONDS: 'Deadline of a warmup, seconds; 300 by default.' },
  routes, events, errors, conflicts, sections, commands, stateWhereabouts: ['hostsByNode', 'donorEndpoints'],
  stateReadings: ['tasks'],
  state: {
    instances: 'Instances by id: which model runs where.', runners: 'Status of each runner of an instance.',
    tasks: 'Requests in progress on any node, and those that ended in the last 30 seconds; without content.',
    instanceFailures: 'Why instances could not serve, newest first, at most 64.',
    nodeSystem: 'Adds the memory of each runner, in use and as placement counts it, and its idle time.',
    nodeResources: 'Adds the backends detected or declared, also by engine, and the program of each engine.'
  }
} as const satisfies Manifest
