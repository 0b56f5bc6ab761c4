import { admittedMembers, closedObject, openObject, type RouteDecl } from '../../kernel/index.js'

const text = { type: 'string' } as const
const rows = { type: 'array', items: { type: 'object' } } as const
const flag = { type: 'boolean' } as const
const memberRow = openObject({
  installId: text, nodeId: { type: ['string', 'null'] }, name: text, fingerprint: text,
  addresses: { type: 'array', items: text }, joinedAt: text, live: flag, master: flag, self: flag,
  version: { type: ['string', 'null'] }
})
const nodeRef = { type: 'string', minLength: 1, maxLength: 128 } as const

const joinTokenBody = closedObject({
  ttl_seconds: { type: 'integer', minimum: 10, maximum: 86400, description: 'time until it expires' },
  local: {
    type: 'boolean', description: 'for a node on this machine: other machines need not reach this one'
  }
}, [])

const joinTokenRecord = closedObject({ id: text, expires: text, by: text })

const receipt = openObject({
  sid: text, term: { type: 'integer' }, seq: { type: 'integer' }, command_id: text
}, ['sid', 'term', 'seq'])

export const clusterRoutes = {
  joinToken: {
    method: 'POST', url: '/cluster/join-tokens', authority: 'operator',
    summary: 'Creates a token that lets one node join. It needs every authority, because a member can ' +
      'vouch for all of them.',
    body: joinTokenBody,
    reply: openObject({ token: text, expires: text, command: text }),
    errors: ['loopback_only', 'missing_grant']
  },
  joinTokens: {
    method: 'GET', url: '/cluster/join-tokens', authority: 'operator',
    summary: 'The open join tokens of this node, without their secrets.',
    reply: openObject({ tokens: { type: 'array', items: joinTokenRecord } })
  },
  revokeJoinToken: {
    method: 'DELETE', url: '/cluster/join-tokens/:id', authority: 'operator',
    summary: 'Revokes a join token of this node.',
    params: openObject({ id: nodeRef }),
    reply: openObject({ id: text, revoked: { const: true } }),
    errors: ['not_found']
  },
  members: {
    method: 'GET', url: '/cluster/members', authority: 'operator',
    summary: 'The members with their keys and addresses, and all dialled addresses.',
    reply: openObject({
      clusterId: text, members: { type: 'array', items: memberRow }, dials: rows, removed: rows
    })
  },
  removeMember: {
    method: 'DELETE', url: '/cluster/members/:id', authority: 'operator',
    summary: 'Removes a member permanently: its key is refused from then on.',
    params: openObject({ id: nodeRef }),
    reply: openObject({ installId: text, removed: { const: true }, admitted: admittedMembers }),
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
