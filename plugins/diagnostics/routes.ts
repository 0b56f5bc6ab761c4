import type { RouteDecl } from '../../kernel/index.js'

const count = { type: 'integer', minimum: 0 } as const
const list = { type: 'array', items: { type: 'object' } } as const

export const routes = {
  node: {
    method: 'GET', url: '/v1/diagnostics/node', authority: 'operator',
    summary: 'What goes on inside this node: process, runners with pids, tried addresses, plugins, warnings.',
    reply: {
      type: 'object', additionalProperties: false,
      required: [
        'generatedAt', 'runtime', 'resources', 'processes', 'supervisorRunners', 'placements',
        'dials', 'plugins', 'warnings'
      ],
      properties: {
        generatedAt: { type: 'string' },
        runtime: { type: 'object', required: ['nodeId', 'pid', 'isMaster'] },
        resources: { type: 'object' },
        processes: list,
        supervisorRunners: list,
        placements: list,
        dials: list,
        plugins: list,
        warnings: { type: 'array', items: { type: 'string' } }
      }
    }
  },
  telemetry: {
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
        transport: { type: 'string' },
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
  }
} as const satisfies Record<string, RouteDecl>
