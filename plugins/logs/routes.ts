import { closedObject, logLevels, type RouteDecl } from '../../kernel/index.js'
import { LIMIT_MOST } from './limits.js'

const text = { type: 'string' } as const
const name = { type: 'string', minLength: 1, maxLength: 200 } as const
const count = { type: 'integer', minimum: 0 } as const

const query = {
  since: {
    type: 'string', minLength: 1, maxLength: 100,
    description: 'Lines since this time (ISO-8601), or after line `nodeId:seq`. Default: the newest.'
  },
  limit: {
    type: 'integer', minimum: 1, maximum: LIMIT_MOST,
    description: `Number of newest lines; default 200, or ${LIMIT_MOST} with a time. With follow: ` +
      'number of initial lines, default none.'
  },
  level: { enum: [...logLevels], description: 'Lowest level.' },
  model: { ...name, description: 'Only lines about this model, including the output of its runners.' },
  plugin: { ...name, description: 'Only lines of this plugin.' },
  follow: { enum: ['0', '1'], description: '1: a stream of server-sent events; honours Last-Event-ID.' }
} as const

const nullable = { type: ['string', 'null'] } as const
const line = closedObject({
  nodeId: text, node: text, seq: count, at: text, level: { enum: [...logLevels] },
  source: { enum: ['node', 'runner'] },
  plugin: nullable, modelId: nullable, runnerId: nullable, message: text, fields: { type: 'object' }
})
const lines = { type: 'array', items: line } as const

/** Whether a node's log could be read; `error` is null for a node that answered. */
const status = closedObject({
  nodeId: text, node: text,
  error: {
    type: ['object', 'null'], required: ['reason', 'message'], properties: { reason: text, message: text }
  }
})

export const routes = {
  /** `firstSeq`, `nextSeq`: `seq` of the oldest line in memory, and of the next line to be written. */
  here: {
    method: 'GET', url: '/v1/logs', members: true, authority: 'operator', stream: true,
    summary: 'The newest lines of this node\'s log and of its runners\' output, as a page or a stream.',
    query: closedObject(query, []),
    reply: closedObject({ nodeId: text, node: text, firstSeq: count, nextSeq: count, lines }),
    errors: ['invalid_request']
  },
  cluster: {
    method: 'GET', url: '/v1/logs/cluster', authority: 'operator', stream: true,
    summary: 'The same for all nodes, sorted by time; names those that do not respond. Follows one node.',
    query: closedObject({
      ...query, node: { ...name, description: 'Only this node: id, name or local (default with follow).' }
    }, []),
    reply: closedObject({ nodes: { type: 'array', items: status }, lines }),
    errors: ['invalid_request', 'node_not_found', 'unreachable']
  }
} as const satisfies Record<string, RouteDecl>
