import type { RouteDecl } from '../../kernel/index.js'

const count = { type: 'integer', minimum: 0 } as const
const text = { type: 'string' } as const
const list = { type: 'array', items: { type: 'object' } } as const
const fault = {
  type: ['object', 'null'], additionalProperties: false, required: ['reason', 'message'],
  properties: {
    reason: { enum: ['no_sign_of_life', 'timeout', 'too_large', 'garbage', 'refused', 'unreachable'] },
    message: text
  }
} as const

const node = {
  method: 'GET', url: '/v1/diagnostics/node', members: true, authority: 'operator',
  summary: 'What goes on inside this node: process, runners with pids, tried addresses, plugins, warnings.',
  reply: {
    type: 'object', additionalProperties: false,
    required: [
      'generatedAt', 'runtime', 'resources', 'processes', 'supervisorRunners', 'placements',
      'dials', 'plugins', 'warnings'
    ],
    properties: {
      generatedAt: text,
      runtime: {
        type: 'object', required: ['nodeId', 'pid', 'isMaster', 'tracingEnabled'],
        properties: {
          nodeId: text, pid: { type: 'integer' }, isMaster: { type: 'boolean' },
          tracingEnabled: { type: 'boolean' }
        }
      },
      resources: {
        type: 'object', required: ['eventLoopDelayMs', 'handles', 'dataPlane'],
        properties: { eventLoopDelayMs: {}, handles: {}, dataPlane: {} }
      },
      processes: list,
      supervisorRunners: list,
      placements: list,
      dials: list,
      plugins: list,
      warnings: { type: 'array', items: text },
      warningCodes: { type: 'array', items: text, description: 'what each of the warnings is called' }
    }
  }
} as const

const capture = {
  method: 'POST', url: '/v1/diagnostics/node/capture', authority: 'operator', stream: true, audit: false,
  summary: 'A bundle for a bug report (tar.gz): state, events, log, runners, settings.',
  produces: 'application/gzip',
  // No body will do.
  body: { type: ['object', 'null'], additionalProperties: false, properties: {} }
} as const

const cancelRunner = {
  method: 'POST', url: '/v1/diagnostics/node/runners/:runner_id/cancel', authority: 'operator',
  summary: 'Ends the tasks inside a runner of this node; if it does not let go of them, its process too.',
  params: {
    type: 'object', additionalProperties: false, required: ['runner_id'],
    properties: { runner_id: { type: 'string', minLength: 1, maxLength: 128 } }
  },
  body: {
    type: ['object', 'null'], additionalProperties: false,
    properties: {
      graceSeconds: {
        type: 'number', minimum: 0, maximum: 10,
        description: 'how long the runner may take to let go before its process is ended; 5 when absent'
      }
    }
  },
  reply: {
    type: 'object', additionalProperties: false,
    required: ['runnerId', 'cancelledTasks', 'restarted', 'message'],
    properties: {
      runnerId: text, cancelledTasks: { type: 'array', items: text }, restarted: { type: 'boolean' },
      message: text
    }
  },
  errors: ['not_found']
} as const

const cluster = {
  method: 'GET', url: '/v1/diagnostics/cluster', authority: 'operator',
  summary: 'The diagnostics of every node; one that does not answer in 3 s is named with what is wrong.',
  reply: {
    type: 'object', additionalProperties: false, required: ['generatedAt', 'localNodeId', 'nodes'],
    properties: {
      generatedAt: text,
      localNodeId: text,
      nodes: {
        type: 'array',
        items: {
          type: 'object', additionalProperties: false,
          required: [
            'nodeId', 'nodeInstallId', 'name', 'live', 'master', 'error', 'tookMs', 'clockAheadMs',
            'clockUncertaintyMs', 'diagnostics'
          ],
          properties: {
            nodeId: text, nodeInstallId: text, name: text,
            live: { type: 'boolean' }, master: { type: 'boolean' }, error: fault,
            tookMs: { type: ['number', 'null'] }, clockAheadMs: { type: ['number', 'null'] },
            clockUncertaintyMs: { type: ['number', 'null'] }, diagnostics: { type: ['object', 'null'] }
          }
        }
      }
    }
  }
} as const

const metrics = {
  method: 'GET', url: '/metrics', authority: 'read',
  summary: 'The figures of this node in the text format of Prometheus.',
  produces: 'text/plain; version=0.0.4; charset=utf-8'
} as const

const gossip = {
  method: 'GET', url: '/v1/diagnostics/telemetry', authority: 'read',
  summary: 'How this node\'s readings get to its peers: admission, coalescing, drops, queue, publishes.',
  reply: {
    type: 'object', additionalProperties: false,
    required: [
      'enabled', 'transport', 'admissionCapacity', 'pendingReadings', 'queueDepth', 'maxQueueDepth',
      'readingsOffered', 'readingsCoalesced', 'readingsDropped', 'readingsPublished', 'publishFailures',
      'noPeerPublishes', 'bytesPublished', 'lastSuccessfulPublishAgeSeconds'
    ],
    properties: {
      enabled: { type: 'boolean' },
      transport: text,
      admissionCapacity: count,
      pendingReadings: count,
      queueDepth: count,
      maxQueueDepth: count,
      readingsOffered: count,
      readingsCoalesced: count,
      readingsDropped: count,
      readingsPublished: count,
      publishFailures: count,
      noPeerPublishes: count,
      bytesPublished: count,
      lastSuccessfulPublishAgeSeconds: { type: ['number', 'null'], minimum: 0 }
    }
  }
} as const

const openapi = {
  method: 'GET', url: '/openapi.json', authority: null,
  summary: 'This interface as OpenAPI 3.1.',
  produces: 'application/json; charset=utf-8',
  reply: { type: 'object' }
} as const

/** HTTP routes of this plugin; the handlers are in `handlers.ts`. */
export const routes = {
  node, capture, cancelRunner, cluster, metrics, gossip, openapi
} as const satisfies Record<string, RouteDecl>
