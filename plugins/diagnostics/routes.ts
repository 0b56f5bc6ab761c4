import { closedObject, openObject, type RouteDecl } from '../../kernel/index.js'

/** Deadline in ms for one node's complete report. */
export const PEER_MS = 3000

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
  summary: 'Diagnostics of this node: process, runners with pids, dialled addresses, plugins, warnings.',
  reply: closedObject({
    generatedAt: text,
    runtime: openObject({
      nodeId: text, pid: { type: 'integer' }, isMaster: { type: 'boolean' },
      tracingEnabled: { type: 'boolean' }
    }),
    resources: openObject({ eventLoopDelayMs: {}, handles: {}, dataPlane: {} }),
    processes: list, supervisorRunners: list, placements: list, dials: list, plugins: list,
    warnings: { type: 'array', items: text },
    warningCodes: { type: 'array', items: text, description: 'the code of each warning' }
  }, [
    'generatedAt', 'runtime', 'resources', 'processes', 'supervisorRunners', 'placements', 'dials', 'plugins',
    'warnings'
  ])
} as const

const capture = {
  method: 'POST', url: '/v1/diagnostics/node/capture', authority: 'operator', stream: true, audit: false,
  summary: 'A bundle for a bug report (tar.gz): state, events, log, runners, settings.',
  produces: 'application/gzip',
  // `null` allows a request without a body.
  body: { type: ['object', 'null'], additionalProperties: false, properties: {} }
} as const

const texts = { type: 'array', items: text } as const
const optional = { type: ['string', 'null'] } as const
const findings = {
  method: 'GET', url: '/v1/findings', authority: 'read',
  summary: 'What is wrong or noteworthy, now and in the last hours, as far as the caller may read it.',
  query: closedObject({
    since: { ...text, maxLength: 40,
      description: 'Ended findings since this time, ISO-8601; a day by default.' },
    subject: { ...text, maxLength: 200,
      description: 'Only of this node, model, instance, request or code.' }
  }, []),
  reply: closedObject({
    generatedAt: text, unknown: { ...texts, description: 'What could not be asked, with the reason.' },
    findings: {
      type: 'array',
      items: closedObject({
        code: text, severity: { enum: ['error', 'warn', 'info'] }, subject: texts, summary: text,
        evidence: list, since: optional, ended: { type: 'boolean' }, cause: optional, remedy: optional,
        authority: { ...text, description: 'What a caller needs to see it.' }, source: text
      })
    }
  }, ['generatedAt', 'findings', 'unknown'])
} as const

const cluster = {
  method: 'GET', url: '/v1/diagnostics/cluster', authority: 'operator',
  summary: 'The diagnostics of every node; one that does not answer in time is listed with the error.',
  query: closedObject({
    timeout_ms: { type: 'integer', minimum: 100, maximum: PEER_MS, default: PEER_MS }
  }, []),
  reply: closedObject({
    generatedAt: text, localNodeId: text,
    nodes: {
      type: 'array',
      items: closedObject({
        nodeId: text, nodeInstallId: text, name: text,
        live: { type: 'boolean' }, master: { type: 'boolean' }, error: fault,
        tookMs: { type: ['number', 'null'] }, clockAheadMs: { type: ['number', 'null'] },
        clockUncertaintyMs: { type: ['number', 'null'] }, diagnostics: { type: ['object', 'null'] }
      })
    }
  })
} as const

const metrics = {
  method: 'GET', url: '/metrics', authority: 'read',
  summary: 'The metrics of this node in the text format of Prometheus.',
  produces: 'text/plain; version=0.0.4; charset=utf-8'
} as const

const gossip = {
  method: 'GET', url: '/v1/diagnostics/telemetry', authority: 'read',
  summary: 'Counters of the readings that this node sends: admission, coalescing, drops, queue, publishes.',
  reply: closedObject({
    enabled: { type: 'boolean' }, transport: text, admissionCapacity: count, pendingReadings: count,
    queueDepth: count, maxQueueDepth: count, readingsOffered: count, readingsCoalesced: count,
    readingsDropped: count, readingsPublished: count, publishFailures: count, noPeerPublishes: count,
    bytesPublished: count, lastSuccessfulPublishAgeSeconds: { type: ['number', 'null'], minimum: 0 }
  })
} as const

const openapi = {
  method: 'GET', url: '/openapi.json', authority: null, summary: 'This API as OpenAPI 3.1.',
  produces: 'application/json; charset=utf-8', reply: { type: 'object' }
} as const

export const routes = {
  node, capture, cluster, findings, metrics, gossip, openapi
} as const satisfies Record<string, RouteDecl>
