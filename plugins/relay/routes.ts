import { closedObject, type RouteDecl } from '../../kernel/index.js'

const textOrNull = { type: ['string', 'null'] } as const
const key = { type: 'string', pattern: '^[\\w-]{43}$' } as const

/** The relay address of a node, signed with the node's key. Keys and signatures are raw, base64url. */
export const meetingSchema = closedObject({
  installId: { type: 'string', minLength: 1, maxLength: 64 },
  name: { type: 'string', minLength: 1, maxLength: 100 },
  url: { type: 'string', minLength: 1, maxLength: 500 },
  key, agreementKey: key,
  signature: { type: 'string', pattern: '^[\\w-]{86}$' }
})

export const routes = {
  own: {
    method: 'GET', url: '/v1/relay', authority: 'read',
    summary: 'Whether this node is connected to its relay, since when, and its connections; the URL and ' +
      'the reason of a failure for `operator` only.',
    reply: closedObject({
      url: textOrNull, route: textOrNull, connected: { type: 'boolean' }, since: textOrNull,
      reason: textOrNull, connections: { type: 'integer' }, streams: { type: 'integer' }
    })
  },
  meetings: {
    method: 'GET', url: '/v1/relay/routes', authority: 'read',
    summary: 'The relay address of each node of the cluster, signed by that node; empty for tokens ' +
      'without `operator`.',
    reply: closedObject({ routes: { type: 'array', items: meetingSchema } })
  }
} as const satisfies Record<string, RouteDecl>
