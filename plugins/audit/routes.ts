import type { RouteDecl } from '../../kernel/index.js'

/** Schema of an object with exactly these fields. */
const exact = <const P extends Record<string, unknown>>(properties: P) => ({
  type: 'object', additionalProperties: false, required: Object.keys(properties) as (keyof P)[], properties
}) as const

const text = { type: 'string' } as const
const textOrNull = { type: ['string', 'null'] } as const
const seq = { type: 'integer', minimum: 0 } as const
const node = {
  type: 'string', minLength: 1, maxLength: 100, description: 'Only this node: id, name or local.'
} as const

/** `node`: install id of the recording node. `status`: null until the request ends, or if it never did. */
const entry = exact({
  seq, at: text, node: text, who: text, how: text, what: text, detail: { type: 'object' },
  status: { type: ['integer', 'null'] }, reason: textOrNull
})

const missing = exact({ node: text, name: text, message: text })
const head = { ...exact({ seq, hash: text }), type: ['object', 'null'] } as const
const fault = {
  ...exact({ seq, kind: { enum: ['altered', 'removed', 'reordered'] }, message: text }),
  type: ['object', 'null']
} as const

const verified = exact({
  node: text, name: text,
  ok: { type: ['boolean', 'null'], description: 'Null if the chain could not be read.' },
  records: seq, first: { type: ['integer', 'null'] }, last: head, fault, error: textOrNull
})

export const routes = {
  list: {
    method: 'GET', url: '/v1/audit', authority: 'operator', members: true,
    summary: 'Lists who changed what: the newest changes through any node, in order of time.',
    query: {
      type: 'object', additionalProperties: false,
      properties: {
        since: { type: 'string', format: 'date-time', maxLength: 40, description: 'Earliest time.' },
        who: { type: 'string', minLength: 1, maxLength: 200, description: 'Only changes by this caller.' },
        limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 }, node
      }
    },
    reply: exact({
      entries: { type: 'array', items: entry },
      failed: { type: 'array', items: missing, description: 'Nodes whose changes are missing.' }
    }),
    errors: ['invalid_request', 'node_not_found']
  },
  verify: {
    method: 'GET', url: '/v1/audit/verify', authority: 'operator',
    summary: 'Checks the chain of every node for altered, removed or reordered records.',
    query: { type: 'object', additionalProperties: false, properties: { node } },
    reply: exact({
      ok: { type: 'boolean', description: 'True if no readable chain has a fault.' },
      nodes: { type: 'array', items: verified }
    }),
    errors: ['node_not_found'],
    deadlineMs: 300_000
  },
  export: {
    method: 'GET', url: '/v1/audit/export', authority: 'operator', members: true, stream: true,
    summary: 'Streams the raw chain of one node, one record per line.',
    query: { type: 'object', additionalProperties: false, properties: { node } },
    produces: 'application/x-ndjson', errors: ['node_not_found', 'unreachable']
  }
} as const satisfies Record<string, RouteDecl>
