import { closedObject, ClusterService, TracerService, type Manifest } from '../../kernel/index.js'
import { routes, setting } from './routes.js'
import { TracingService } from './service.js'

export const manifest = {
  name: 'tracing', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Traces single requests across nodes; stores, shows and exports the traces.',
  consumes: { tracers: TracerService, cluster: ClusterService }, provides: { tracing: TracingService },
  settings: {
    tracing: {
      type: 'object', additionalProperties: false, default: {}, description: 'Traces of single requests.',
      properties: {
        retention_days: {
          type: 'integer', minimum: 1, default: 3, description: 'Days to keep a trace file.'
        },
        max_total_mib: {
          type: 'integer', minimum: 1, default: 256,
          description: 'Most MiB of trace files on a node; the oldest are removed first.'
        },
        otlp_url: {
          'type': 'string', 'format': 'http-url', 'x-local': true,
          'description':
            'Address that traces are exported to (OTLP over HTTP, JSON); /v1/traces if it has no path.',
          'examples': ['http://localhost:4318/v1/traces']
        },
        otlp_headers: {
          'type': 'object', 'additionalProperties': { type: 'string' }, 'default': {}, 'x-secret': true,
          'x-local': true, 'description': 'Headers for that receiver, such as an API key.'
        }
      }
    }
  },
  reloads: true,
  routes,
  errors: {
    trace_not_found: {
      status: 404, retryable: false, message: 'There is no such trace.',
      remedy: 'GET /v1/traces/cluster lists the saved traces; PUT /v1/tracing turns tracing on.'
    },
    trace_damaged: {
      status: 500, retryable: false, message: 'The trace file is damaged.',
      remedy: 'POST /v1/traces/delete removes it.'
    }
  },
  sections: { switch: { writer: 'master', summary: 'Whether new requests are traced.', value: setting } },
  commands: { set: { summary: 'Turns tracing of new requests on or off.', args: setting, result: setting } },
  events: {
    TracingStateChanged: {
      plane: 'durable', summary: 'Tracing of new requests was turned on or off.', payload: setting
    }
  },
  state: { tracingEnabled: 'Whether new requests are traced.' },
  tools: {
    slow: {
      summary: 'Why requests are slow: where their time goes, queues, links, busy nodes.',
      args: closedObject({
        model: { type: 'string', minLength: 1, maxLength: 200, description: 'Only requests to this model.' }
      }, []),
      load: () => import('./tools/slow.js')
    }
  },
  verbs: {
    traces: {
      heading: 'Watch it', summary: 'show where the time of single requests went, or turn tracing on or off',
      args: '[id]',
      options: [
        ['-o, --output <file>', 'write the trace to this file, for ui.perfetto.dev'],
        ['--local', 'only traces that the node itself stores'],
        ['--limit <n>', 'list at most this many traces (20)']
      ],
      examples: ['svc traces on', 'svc traces', 'svc traces 3f2b… -o trace.json'],
      load: () => import('./cli/traces.js')
    }
  }
} as const satisfies Manifest
