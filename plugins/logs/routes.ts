import { logLevels } from '../../kernel/index.js'
import type { RouteDecl } from '../../kernel/index.js'
import { LIMIT_MOST } from './limits.js'

const text = { type: 'string' } as const
const name = { type: 'string', minLength: 1, maxLength: 200 } as const
const count = { type: 'integer', minimum: 0 } as const

const asked = {
  since: {
    type: 'string', minLength: 1, maxLength: 100,
    description: 'From this time on (ISO-8601), or behind this line: `nodeId:seq`. The newest when absent.'
  },
  limit: {
    type: 'integer', minimum: 1, maximum: LIMIT_MOST,
    description: `At most so many; 200 when absent, ${LIMIT_MOST} with a time. With follow: how many to ` +
      'begin with, none when absent.'
  },
  level: { enum: [...logLevels], description: 'Lowest level.' },
  model: { ...name, description: 'Only lines about this model, what its runners wrote included.' },
  plugin: { ...name, description: 'Only lines of this plugin.' },
  follow: { enum: ['0', '1'], description: '1: server-sent events that go on; honours Last-Event-ID.' }
} as const

const nullable = { type: ['string', 'null'] } as const
const line = {
  type: 'object', additionalProperties: false,
  required: [
    'nodeId', 'node', 'seq', 'at', 'level', 'source', 'plugin', 'modelId', 'runnerId', 'message', 'fields'
  ],
  properties: {
    nodeId: text, node: text, seq: count, at: text, level: { enum: [...logLevels] },
    source: { enum: ['node', 'runner'] },
    plugin: nullable, modelId: nullable, runnerId: nullable, message: text, fields: { type: 'object' }
  }
} as const
const lines = { type: 'array', items: line } as const

const word = {
  type: 'object', additionalProperties: false, required: ['nodeId', 'node', 'error'],
  properties: {
    nodeId: text, node: text,
    error: {
      type: ['object', 'null'], required: ['reason', 'message'], properties: { reason: text, message: text }
    }
  }
} as const

export const routes = {
  here: {
    method: 'GET', url: '/v1/logs', members: true, authority: 'operator', stream: true,
    summary: 'The newest lines of this node\'s log and of its runners\' output, as a page or followed.',
    query: { type: 'object', additionalProperties: false, properties: asked },
    reply: {
      type: 'object', additionalProperties: false,
      required: ['nodeId', 'node', 'firstSeq', 'nextSeq', 'lines'],
      properties: { nodeId: text, node: text, firstSeq: count, nextSeq: count, lines }
    },
    errors: ['invalid_request']
  },
  cluster: {
    method: 'GET', url: '/v1/logs/cluster', authority: 'operator', stream: true,
    summary: 'The same of all nodes in order of time; those that give no answer are named.',
    query: {
      type: 'object', additionalProperties: false,
      properties: { ...asked, node: { ...name, description: 'Only this node: id, name or local.' } }
    },
    reply: {
      type: 'object', additionalProperties: false, required: ['nodes', 'lines'],
      properties: { nodes: { type: 'array', items: word }, lines }
    },
    errors: ['invalid_request', 'node_not_found']
  }
} as const satisfies Record<string, RouteDecl>
