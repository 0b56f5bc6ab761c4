import {
  CapabilityHostService, ClusterService, CommandService, DeclarationService, TracerService, type Manifest
} from '../../kernel/index.js'
import { routes } from './routes.js'
import { CallsService, InvocationService, SpendingService } from './service.js'

const waitOption = ['--wait [seconds]', 'retry while the node is starting or busy (default 60 s)'] as const

export const manifest = {
  name: 'capabilities', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Serves the capabilities of all plugins: admission, streams, cancellation, other nodes.',
  consumes: {
    host: CapabilityHostService, commands: CommandService, cluster: ClusterService, tracers: TracerService,
    declarations: DeclarationService
  },
  consumesOptional: { spending: SpendingService },
  provides: { invocations: InvocationService, calls: CallsService }, routes,
  verbs: {
    capabilities: {
      heading: 'Use models', summary: 'list what a node can do, or show one capability with its schema',
      args: '[id@version]', options: [['--node <id>', 'list those of another node'], waitOption],
      examples: ['svc capabilities', 'svc capabilities tts@1.0.0', 'svc capabilities --json'],
      load: () => import('./cli/capabilities.js')
    },
    call: {
      heading: 'Use models', summary: 'call a capability; its input fields are options', args: '<id@version>',
      options: [
        ['-o, --output <file>', 'write media to a file (- is stdout)'],
        ['--payload <json>', 'the payload, or part of it; @FILE reads a file, - reads stdin'],
        ['--node <id>', 'run it on another node'],
        ['--timeout <seconds>', 'longest wait for the first and each next chunk'],
        waitOption
      ],
      examples: ['svc call demo@1.0.0 --payload \'{"text":"a b c"}\' --json'], open: true,
      load: () => import('./cli/call.js')
    }
  }
} as const satisfies Manifest
