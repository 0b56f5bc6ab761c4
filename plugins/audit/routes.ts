import { closedObject, type RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const textOrNull = { type: ['string', 'null'] } as const
const seq = { type: 'integer', minimum: 0 } as const
const node = {
  type: 'string', minLength: 1, maxLength: 100, description: 'Only this node: id, name or local.'
} as const

/** `node`: install id of the recording node. `status`: null until the request ends, or if it never did. */
const entry = closedObject({
  seq, at: text, node: text, who: text, how: text, what: text, detail: { type: 'object' },
  status: { type: ['integer', 'null'] }, reason: textOrNull
})

const missing = closedObject({ node: text, name: text, message: text })
const head = { ...closedObject({ seq, hash: text }), type: ['object', 'null'] } as const
const fault = {
  ...closedObject({ seq, kind: { enum: ['altered', 'removed', 'reordered'] }, message: text }),
  type: ['object', 'null']
} as const

const verified = closedObject({
  node: text, name: text,
  ok: { type: ['boolean', 'null'], description: 'Null if the chain could not be read.' },
  records: seq, first: { type: ['integer', 'null'] }, last: head, fault, error: textOrNull
})

export const routes = {
  list: {
    method: 'GET', url: '/v1/audit', authority: 'operator', members: true,
    summary: 'Lists who changed what: the newest changes through any node, in order of time.',
    query: closedObject({
      since: { type: 'string', format: 'date-time', maxLength: 40, description: 'Earliest time.' },
      who: { type: 'string', minLength: 1, maxLength: 200, description: 'Only changes by this caller.' },
      limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 }, node
    }, []),
    reply: closedObject({
      entries: { type: 'array', items: entry },
      failed: { type: 'array', items: missing, description: 'Nodes whose changes are missing.' }
    }),
    errors: ['invalid_request', 'node_not_found']
  },
  verify: {
    method: 'GET', url: '/v1/audit/verify', authority: 'operator',
    summary: 'Checks the chain of every node for altered, removed or reordered records.',
    query: closedObject({ node }, []),
    reply: closedObject({
      ok: { type: 'boolean', description: 'True if no readable chain has a fault.' },
      nodes: { type: 'array', items: verified }
    }),
    errors: ['node_not_found'],
    deadlineMs: 300_000
  },
  export: {
    method: 'GET', url: '/v1/audit/export', authority: 'operator', members: true, stream: true,
    summary: 'Streams the raw chain of one node, one record per line.',
    query: closedObject({ node }, []),
    produces: 'application/x-ndjson', errors: ['node_not_found', 'unreachable']
  }
} as const satisfies Record<string, RouteDecl>
