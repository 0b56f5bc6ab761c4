import {
  closedObject, ClusterService, DeclarationService, EventTapService, InspectionService, LogRingService,
  OwnApiService, SessionService, StateService, GossipService, TrafficService, type Manifest
} from '../../kernel/index.js'
import { CallsService } from '../capabilities/service.js'
import { EventLogService } from '../event-log/service.js'
import { ShippingService } from '../logs/service.js'
import { MachineService, RunnersService, RunnerWorkService } from '../runners/service.js'
import { ModelsService } from '../staging/service.js'
import { TracingService } from '../tracing/service.js'
import { routes } from './routes.js'

export const manifest = {
  name: 'diagnostics', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Shows the inside of the nodes: processes, runners, metrics, a bundle for bug reports.',
  after: ['capabilities', 'runners', 'staging', 'event-log', 'tracing', 'logs'],
  consumes: {
    api: OwnApiService, inspection: InspectionService, session: SessionService, gossip: GossipService,
    cluster: ClusterService, state: StateService, tap: EventTapService,
    traffic: TrafficService, declared: DeclarationService
  },
  consumesOptional: {
    calls: CallsService, runners: RunnersService, work: RunnerWorkService, machine: MachineService,
    models: ModelsService, eventLog: EventLogService, tracing: TracingService, log: LogRingService,
    ship: ShippingService
  },
  routes,
  checks: {
    diagnostics: { summary: 'Diagnostics that the nodes report.', load: () => import('./checks/inside.js') }
  },
  tools: {
    doctor: {
      summary: 'All findings: problems of master, nodes, clocks, disks, models, settings; past ones too.',
      args: closedObject({}),
      load: () => import('./findings.js')
    }
  },
  verbs: {
    status: {
      heading: 'Run a cluster', summary: 'show the cluster: master, quorum, nodes, readiness and problems',
      options: [['--wait [seconds]', 'wait until the node is ready (60 s by default), else exit 4']],
      examples: ['svc status', 'svc status --wait=30 && echo ready', 'svc status --json'],
      load: () => import('./cli/status.js')
    },
    doctor: {
      heading: 'Run a cluster',
      summary: 'check this machine, the node and its cluster, with remedies; exit 1 if a check fails',
      examples: ['svc doctor', 'svc doctor --json'], load: () => import('./cli/doctor.js')
    },
    findings: {
      heading: 'Watch it', summary: 'list what is wrong or noteworthy now and in the last day, with remedies',
      options: [
        ['-f, --follow', 'go on, and print what is new'],
        ['--since <time>', 'ended findings since this time (24h)'],
        ['--subject <name>', 'only those of this node, model, instance, request or code']
      ],
      examples: ['svc findings', 'svc findings -f', 'svc findings --subject node2 --json'],
      load: () => import('./cli/findings.js')
    },
    capture: {
      heading: 'Watch it', summary: 'save a bundle for a bug report: state, events, log, runners, settings',
      options: [['-o, --output <file>', 'output file (svc-capture-NODE-TIME.tar.gz)']],
      examples: ['svc capture', 'svc capture -o bug.tar.gz'], load: () => import('./cli/capture.js')
    }
  }
} as const satisfies Manifest
