import { admittedMembers, type RouteDecl } from '../../kernel/index.js'

/** Schema of an object with at least these fields. */
const object = <const P extends Record<string, unknown>>(properties: P) =>
  ({ type: 'object', required: Object.keys(properties) as (keyof P)[], properties }) as const

const text = { type: 'string' } as const
const rows = { type: 'array', items: { type: 'object' } } as const
const flag = { type: 'boolean' } as const
const memberRow = object({
  installId: text, nodeId: { type: ['string', 'null'] }, name: text, fingerprint: text,
  addresses: { type: 'array', items: text }, joinedAt: text, live: flag, master: flag, self: flag,
  version: { type: ['string', 'null'] }
})
const nodeRef = { type: 'string', minLength: 1, maxLength: 128 } as const

const joinTokenBody = {
  type: 'object', additionalProperties: false,
  properties: {
    ttl_seconds: { type: 'integer', minimum: 10, maximum: 86400, description: 'time until it expires' },
    local: {
      type: 'boolean', description: 'for a node on this machine: other machines need not reach this one'
    }
  }
} as const

const joinTokenRecord = {
  type: 'object', additionalProperties: false, required: ['id', 'expires', 'by'],
  properties: { id: text, expires: text, by: text }
} as const

const receipt = {
  type: 'object', required: ['sid', 'term', 'seq'],
  properties: { sid: text, term: { type: 'integer' }, seq: { type: 'integer' }, command_id: text }
} as const

export const clusterRoutes = {
  joinToken: {
    method: 'POST', url: '/cluster/join-tokens', authority: 'operator',
    summary: 'Creates a token that lets one node join. It needs every authority, because a member can ' +
      'vouch for all of them.',
    body: joinTokenBody,
    reply: object({ token: text, expires: text, command: text }),
    errors: ['loopback_only', 'missing_grant']
  },
  joinTokens: {
    method: 'GET', url: '/cluster/join-tokens', authority: 'operator',
    summary: 'The open join tokens of this node, without their secrets.',
    reply: object({ tokens: { type: 'array', items: joinTokenRecord } })
  },
  revokeJoinToken: {
    method: 'DELETE', url: '/cluster/join-tokens/:id', authority: 'operator',
    summary: 'Revokes a join token of this node.',
    params: object({ id: nodeRef }),
    reply: object({ id: text, revoked: { const: true } }),
    errors: ['not_found']
  },
  members: {
    method: 'GET', url: '/cluster/members', authority: 'operator',
    summary: 'The members with their keys and addresses, and all dialled addresses.',
    reply: object({
      clusterId: text, members: { type: 'array', items: memberRow }, dials: rows, removed: rows
    })
  },
  removeMember: {
    method: 'DELETE', url: '/cluster/members/:id', authority: 'operator',
    summary: 'Removes a member permanently: its key is refused from then on.',
    params: object({ id: nodeRef }),
    reply: object({ installId: text, removed: { const: true }, admitted: admittedMembers }),
    errors: ['node_not_found', 'member_self', 'no_master', 'no_quorum']
  },
  touch: {
    method: 'POST', url: '/cluster/touch', authority: 'operator', audit: false,
    summary: 'A command without effect, to test whether the cluster can decide, and how fast.',
    reply: receipt, errors: ['no_master', 'no_quorum', 'session_changed']
  },
  probe: {
    method: 'GET', url: '/cluster/probe', members: true, authority: 'operator', stream: true,
    summary: 'Random bytes with which a member measures the bandwidth of the link.',
    produces: 'application/octet-stream', errors: ['not_found']
  }
} as const satisfies Record<string, RouteDecl>

/** Wire name of the `touch` command. */
export const TOUCH_COMMAND = 'kernel.touch'
