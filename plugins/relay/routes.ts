import type { RouteDecl } from '../../kernel/index.js'

const textOrNull = { type: ['string', 'null'] } as const
const key = { type: 'string', pattern: '^[\\w-]{43}$' } as const

/** The relay address of a node, signed with the node's key. Keys and signatures are raw, base64url. */
export const meetingSchema = {
  type: 'object', additionalProperties: false,
  required: ['installId', 'name', 'url', 'key', 'agreementKey', 'signature'],
  properties: {
    installId: { type: 'string', minLength: 1, maxLength: 64 },
    name: { type: 'string', minLength: 1, maxLength: 100 },
    url: { type: 'string', minLength: 1, maxLength: 500 },
    key, agreementKey: key,
    signature: { type: 'string', pattern: '^[\\w-]{86}$' }
  }
} as const

export const routes = {
  own: {
    method: 'GET', url: '/v1/relay', authority: 'read',
    summary: 'Whether this node is connected to its relay, since when, and its connections; the URL and ' +
      'the reason of a failure for `operator` only.',
    reply: {
      type: 'object', additionalProperties: false,
      required: ['url', 'route', 'connected', 'since', 'reason', 'connections', 'streams'],
      properties: {
        url: textOrNull, route: textOrNull, connected: { type: 'boolean' }, since: textOrNull,
        reason: textOrNull, connections: { type: 'integer' }, streams: { type: 'integer' }
      }
    }
  },
  meetings: {
    method: 'GET', url: '/v1/relay/routes', authority: 'read',
    summary: 'The relay address of each node of the cluster, signed by that node; empty for tokens ' +
      'without `operator`.',
    reply: {
      type: 'object', additionalProperties: false, required: ['routes'],
      properties: { routes: { type: 'array', items: meetingSchema } }
    }
  }
} as const satisfies Record<string, RouteDecl>
