import { closedObject, type RouteDecl } from '../../kernel/index.js'

const idx = { type: 'integer', minimum: 0 } as const
const text = { type: 'string' } as const

const entry = closedObject({
  idx, at: text, origin: text, sessionId: text, id: text,
  event: { type: 'object', minProperties: 1, maxProperties: 1 }
})

export const routes = {
  list: {
    method: 'GET', url: '/events', authority: 'operator', stream: true,
    summary: 'The control events of the cluster in order, as a page or a stream.',
    query: closedObject({
      since: {
        type: 'string', minLength: 1, maxLength: 40,
        description: 'Events after this index, or from this time on (ISO-8601). The newest if absent.'
      },
      limit: {
        type: 'string', pattern: '^[0-9]{1,4}$',
        description: 'Maximum number of events: 1 to 1000, 200 if absent.'
      },
      kinds: {
        type: 'string', minLength: 1, maxLength: 2000, description: 'Only these kinds, separated by commas.'
      },
      node: {
        type: 'string', minLength: 1, maxLength: 100,
        description: 'Only events of this node: id, name or local.'
      },
      follow: { enum: ['0', '1'], description: '1: a stream of server-sent events; honours Last-Event-ID.' }
    }, []),
    reply: closedObject({
      sessionId: text, mode: { enum: ['normal', 'counting-only', 'memory'] },
      counted: idx, firstIdx: idx, nextIdx: idx, events: { type: 'array', items: entry },
      gaps: { type: 'array', items: { type: 'array', items: idx, minItems: 2, maxItems: 2 } },
      degraded: { const: true }
    }, ['sessionId', 'mode', 'counted', 'firstIdx', 'nextIdx', 'events']),
    errors: ['invalid_request', 'node_not_found']
  }
} as const satisfies Record<string, RouteDecl>
