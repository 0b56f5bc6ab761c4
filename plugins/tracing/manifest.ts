import { ClusterService, TracerService } from '../../kernel/index.js'
import type { Manifest } from '../../kernel/index.js'
import { routes, setting } from './routes.js'
import { TracingService } from './service.js'

export const manifest = {
  name: 'tracing',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Records single requests across nodes, keeps and shows what took how long, and exports it.',
  consumes: { tracers: TracerService, cluster: ClusterService },
  provides: { tracing: TracingService },
  settings: {
    tracing: {
      type: 'object', additionalProperties: false, default: {}, description: 'Traces of single requests.',
      properties: {
        retention_days: {
          type: 'integer', minimum: 1, default: 3, description: 'Days a saved trace file is kept.'
        },
        max_total_mib: {
          type: 'integer', minimum: 1, default: 256,
          description: 'Most MiB of saved traces on a node; the oldest go first.'
        },
        otlp_url: {
          'type': 'string', 'format': 'http-url', 'x-local': true,
          'description': 'Where traces are also sent, by OTLP over HTTP with JSON.',
          'examples': ['http://localhost:4318/v1/traces']
        },
        otlp_headers: {
          'type': 'object', 'additionalProperties': { type: 'string' }, 'default': {}, 'x-secret': true,
          'x-local': true, 'description': 'Headers for that receiver, such as its key.'
        }
      }
    }
  },
  routes,
  errors: {
    trace_not_found: {
      status: 404,
      retryable: false,
      message: 'There is no such trace.',
      remedy: 'GET /v1/traces/cluster lists what is kept; PUT /v1/tracing has new requests traced.'
    },
    trace_damaged: {
      status: 500,
      retryable: false,
      message: 'The file of the trace cannot be read.',
      remedy: 'POST /v1/traces/delete removes it.'
    }
  },
  sections: { switch: { writer: 'master', summary: 'Whether new requests are traced.', value: setting } },
  commands: { set: { summary: 'Has new requests traced, or not.', args: setting, result: setting } },
  events: {
    TracingStateChanged: {
      plane: 'durable',
      summary: 'New requests are traced from now on, or no longer.',
      payload: setting
    }
  },
  state: { tracingEnabled: 'Whether new requests are traced.' },
  tools: {
    slow: {
      summary: 'Why requests are slow: where their time goes, queues, links, busy nodes.',
      args: {
        type: 'object', additionalProperties: false,
        properties: {
          model: { type: 'string', minLength: 1, maxLength: 200, description: 'Only of this model.' }
        }
      },
      load: () => import('./tools/slow.js')
    }
  },
  verbs: {
    traces: {
      heading: 'Watch it',
      summary: 'show what took how long in single requests, or switch that on and off',
      args: '[id]',
      options: [
        ['-o, --output <file>', 'write the trace for ui.perfetto.dev here'],
        ['--local', 'only what the asked node keeps itself'],
        ['--limit <n>', 'list at most so many (20)']
      ],
      examples: ['svc traces on', 'svc traces', 'svc traces 3f2b… -o trace.json'],
      load: () => import('./cli/traces.js')
    }
  }
} as const satisfies Manifest
