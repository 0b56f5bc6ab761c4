import { closedObject, type RouteDecl } from '../../kernel/index.js'
import { TRACE_ID } from './trace-file.js'

/** Schema of the setting that switches tracing on or off, in the document, command, event and routes. */
export const setting = closedObject({ enabled: { type: 'boolean' } })

const text = { type: 'string' } as const
const count = { type: 'integer', minimum: 0 } as const

const id = { type: 'string', pattern: TRACE_ID.source } as const
const one = closedObject({ id })
const page = closedObject({ limit: { type: 'integer', minimum: 1, maximum: 10_000, default: 1000 } }, [])

/** A trace as a node lists its own; `fileSize` is 0 until it is written. */
export const stored = closedObject({
  taskId: text, createdAt: text, modelId: text, commandId: text, taskKind: text, outcome: text,
  durationUs: count, fileSize: count
})
export const entry = closedObject({ ...stored.properties, sourceNodes: { type: 'array', items: text } })
export const span = closedObject({
  name: text, startUs: { type: 'integer' }, durationUs: count, rank: count, category: text, nodeId: text,
  attrs: { type: 'object' }
})
/** A node that did not answer, or whose answer is invalid. */
export const failedPeer = closedObject({ nodeId: text, name: text, reason: text, message: text })
const failed = { type: 'array', items: failedPeer } as const

const object = { type: 'object' } as const
const stats = { taskId: text, totalWallTimeUs: count, byCategory: object, byRank: object } as const
const sources = { sourceNodes: { type: 'array', items: text }, failed } as const
const found = ['trace_not_found', 'trace_damaged'] as const

export const routes = {
  state: {
    method: 'GET', url: '/v1/tracing', authority: 'read',
    summary: 'Whether new requests are traced, in the whole cluster.', reply: setting
  },
  set: {
    method: 'PUT', url: '/v1/tracing', authority: 'cluster:write',
    summary: 'Turns tracing of new requests on or off in the whole cluster.',
    body: setting, reply: setting, errors: ['no_master', 'no_quorum', 'session_changed']
  },
  list: {
    method: 'GET', url: '/v1/traces', members: true, authority: 'read',
    summary: 'The traces that this node stores, newest first.',
    query: page, reply: closedObject({ traces: { type: 'array', items: entry } })
  },
  get: {
    method: 'GET', url: '/v1/traces/:id', members: true, authority: 'read', params: one,
    summary: 'The spans of one trace of this node, by the id of its task or command.',
    reply: closedObject({ taskId: text, traces: { type: 'array', items: span } }), errors: found
  },
  stats: {
    method: 'GET', url: '/v1/traces/:id/stats', authority: 'read', params: one,
    summary: 'Durations by category in one trace of this node.', reply: closedObject(stats), errors: found
  },
  raw: {
    method: 'GET', url: '/v1/traces/:id/raw', members: true, authority: 'read', params: one,
    produces: 'application/json',
    summary: 'One trace of this node in Chrome\'s trace format; ui.perfetto.dev opens it.', errors: found
  },
  clusterList: {
    method: 'GET', url: '/v1/traces/cluster', authority: 'read',
    summary: 'The traces of all nodes that respond in time, merged, with the nodes that store each.',
    query: page, reply: closedObject({ traces: { type: 'array', items: entry }, failed })
  },
  clusterGet: {
    method: 'GET', url: '/v1/traces/cluster/:id', authority: 'read', params: one,
    summary: 'The spans of one trace, from all nodes that store it.',
    reply: closedObject({ taskId: text, traces: { type: 'array', items: span }, ...sources }), errors: found
  },
  clusterStats: {
    method: 'GET', url: '/v1/traces/cluster/:id/stats', authority: 'read', params: one,
    summary: 'Durations by category in one trace, from all nodes that store it.',
    reply: closedObject({ ...stats, ...sources }), errors: found
  },
  clusterRaw: {
    method: 'GET', url: '/v1/traces/cluster/:id/raw', authority: 'read', params: one,
    produces: 'application/json',
    summary: 'One trace in Chrome\'s trace format, from a node that stores it.', errors: found
  },
  delete: {
    method: 'POST', url: '/v1/traces/delete', authority: 'cluster:write', audit: 'best-effort',
    summary: 'Removes traces of this node.',
    body: closedObject({ taskIds: { type: 'array', maxItems: 1000, items: id } }),
    reply: closedObject({ deleted: { type: 'array', items: text }, notFound: { type: 'array', items: text } })
  }
} as const satisfies Record<string, RouteDecl>
