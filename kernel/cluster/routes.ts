import { randomUUID } from 'node:crypto'
import { Reply } from '../api/plugin.js'
import { kernelError, noSuchNode } from '../api/errors.js'
import { probeBody } from './links/bandwidth.js'
import { isOutside } from './identity/addresses.js'
import { admitterOf } from './identity/admission.js'
import type { ClusterCore } from './cluster.js'
import type { JoinTokens, Maker } from './identity/join-tokens.js'
import type { NodeLinks } from './open.js'
import type { RouteDecl, RouteRequest } from '../api/plugin.js'

/** The links of this node, as routes and `/state` need them. */
export interface Network extends Pick<
  NodeLinks,
  'members' | 'peers' | 'dials' | 'links' | 'copies' | 'addresses' | 'openOutside' | 'invite' |
  'bytesPerSecond' | 'quorum'
> {
  readonly joinTokens: Pick<JoinTokens, 'list' | 'revoke'>
}

const text = { type: 'string' } as const
const rows = { type: 'array', items: { type: 'object' } } as const
const flag = { type: 'boolean' } as const
const memberRow = {
  type: 'object', required: ['installId', 'nodeId', 'name', 'fingerprint', 'addresses', 'joinedAt', 'live',
    'master', 'self', 'version'],
  properties: {
    installId: text, nodeId: { type: ['string', 'null'] }, name: text, fingerprint: text,
    addresses: { type: 'array', items: text }, joinedAt: text, live: flag, master: flag, self: flag,
    version: { type: ['string', 'null'] }
  }
} as const
const nodeRef = { type: 'string', minLength: 1, maxLength: 128 } as const

/** The answer to the end of a credential or member: the members that it admitted, which stay. */
export const admittedMembers = {
  type: 'array', description: 'the members that it admitted; they stay until they are removed',
  items: {
    type: 'object', additionalProperties: false, required: ['installId', 'name'],
    properties: { installId: text, name: text }
  }
} as const

const joinTokenBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    ttl_seconds: { type: 'integer', minimum: 10, maximum: 86400, description: 'how long it may be used' },
    local: {
      type: 'boolean',
      description: 'for a node on this machine: other machines need not reach this one'
    }
  }
} as const

const joinTokenRecord = {
  type: 'object', additionalProperties: false, required: ['id', 'expires', 'by'],
  properties: { id: text, expires: text, by: text }
} as const

const receipt = {
  type: 'object',
  required: ['sid', 'term', 'seq'],
  properties: { sid: text, term: { type: 'integer' }, seq: { type: 'integer' }, command_id: text }
} as const

export const clusterRoutes = {
  joinToken: {
    method: 'POST', url: '/cluster/join-tokens', authority: 'operator',
    summary: 'Makes a token with which one more node joins. It needs every authority, since a member can ' +
      'vouch for all of them.',
    body: joinTokenBody,
    reply: {
      type: 'object', required: ['token', 'expires', 'command'],
      properties: { token: text, expires: text, command: text }
    },
    errors: ['loopback_only', 'missing_grant']
  },
  joinTokens: {
    method: 'GET', url: '/cluster/join-tokens', authority: 'operator',
    summary: 'The join tokens of this node that still let a node in, without their secrets.',
    reply: {
      type: 'object', required: ['tokens'],
      properties: { tokens: { type: 'array', items: joinTokenRecord } }
    }
  },
  revokeJoinToken: {
    method: 'DELETE', url: '/cluster/join-tokens/:id', authority: 'operator',
    summary: 'Ends a join token of this node before its time.',
    params: { type: 'object', required: ['id'], properties: { id: nodeRef } },
    reply: {
      type: 'object', required: ['id', 'revoked'], properties: { id: text, revoked: { const: true } }
    },
    errors: ['not_found']
  },
  members: {
    method: 'GET', url: '/cluster/members', authority: 'operator',
    summary: 'The members with their keys and addresses, and every address that was tried.',
    reply: {
      type: 'object', required: ['clusterId', 'members', 'dials', 'removed'],
      properties: {
        clusterId: text, members: { type: 'array', items: memberRow }, dials: rows, removed: rows
      }
    }
  },
  removeMember: {
    method: 'DELETE', url: '/cluster/members/:id', authority: 'operator',
    summary: 'Removes a member for good: its key is refused from then on.',
    params: { type: 'object', required: ['id'], properties: { id: nodeRef } },
    reply: {
      type: 'object', required: ['installId', 'removed', 'admitted'],
      properties: { installId: text, removed: { const: true }, admitted: admittedMembers }
    },
    errors: ['node_not_found', 'member_self', 'no_master', 'no_quorum']
  },
  touch: {
    // A command that changes nothing.
    method: 'POST', url: '/cluster/touch', authority: 'operator', audit: false,
    summary: 'A command without effect: shows that the cluster decides, and how long that takes.',
    reply: receipt,
    errors: ['no_master', 'no_quorum', 'session_changed']
  },
  probe: {
    method: 'GET', url: '/cluster/probe', members: true, authority: 'operator', stream: true,
    summary: 'Bytes without meaning, by which a member measures the link.',
    produces: 'application/octet-stream',
    errors: ['not_found']
  }
} as const satisfies Record<string, RouteDecl>

const JOIN_SECONDS = 900
/** Header with which a client names a command, so that it can ask again for the same one. */
export const COMMAND_HEADER = 'x-svc-command-id'
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** `authorities`: all that the kernel and its plugins declare. */
export interface ClusterRouteParts { cluster: ClusterCore, network: Network, authorities: () => string[] }

type Handlers = Record<keyof typeof clusterRoutes, (request: RouteRequest<never>) => unknown>

export function clusterHandlers (parts: ClusterRouteParts): Handlers {
  const { cluster, network } = parts
  cluster.commands.handle('kernel.touch', () => null)
  return {
    joinToken: (request) =>
      joinToken(network, (request.body ?? {}), admitterOf(request.caller, parts.authorities())),
    joinTokens: () => ({ tokens: network.joinTokens.list() }),
    revokeJoinToken: (request) => {
      const { id } = request.params as { id: string }
      if (network.joinTokens.revoke(id)) return { id, revoked: true }
      throw kernelError('not_found', `No join token ${id} is open here; svc join-token ls lists them.`)
    },
    members: () => memberList(parts),
    removeMember: async (request) => {
      const { id } = request.params as { id: string }
      const member = cluster.directory.resolve(id)
      if (member === undefined) throw noSuchNode(id, cluster.directory.nodes())
      const { installId } = member
      await cluster.membership.remove(installId)
      return { installId, removed: true, admitted: cluster.service.admittedBy(installId) }
    },
    touch: async (request) => {
      const id = commandId(request.headers[COMMAND_HEADER])
      const { receipt: { sid, term, seq } } = await cluster.commands.run('kernel.touch', {}, id)
      return { sid, term, seq, command_id: id }
    },
    probe: (request) => {
      if (request.member === null) throw kernelError('not_found', 'Only members measure links.')
      return new Reply(probeBody())
    }
  }
}

/** The client's id of a command, or a new one. Throws `invalid_request`. */
export function commandId (header: string | undefined): string {
  if (header === undefined) return randomUUID()
  if (UUID.test(header)) return header.toLowerCase()
  throw kernelError('invalid_request', `The header ${COMMAND_HEADER} is not a UUID.`, {
    param: COMMAND_HEADER, issues: [{ path: COMMAND_HEADER, message: 'is not a UUID' }]
  })
}

interface JoinTokenBody { ttl_seconds?: number, local?: boolean }

async function joinToken (network: Network, body: JoinTokenBody, maker: Maker): Promise<object> {
  if (body.local !== true) await network.openOutside()
  const addresses = network.addresses()
  if (body.local !== true && !addresses.some(isOutside)) {
    throw kernelError('loopback_only', undefined, { addresses: [...addresses] })
  }
  const { token, expires } = network.invite(body.ttl_seconds ?? JOIN_SECONDS, maker)
  return { token, expires, command: `SVC_JOIN=${token} ./svc up` }
}

function memberList ({ cluster, network }: ClusterRouteParts): object {
  const { clusterId, members, removed } = network.members.current()
  const peers = new Map(network.peers().map((peer) => [peer.installId, peer]))
  const views = new Map(cluster.directory.nodes().map((view) => [view.installId, view]))
  return {
    clusterId,
    members: members.map(({ installId, fingerprint, name, addresses, joinedAt, admitted = null }) => {
      const { nodeId = null, live = false, master = false, self = false } = views.get(installId) ?? {}
      const peer = peers.get(installId)
      return {
        installId, nodeId, name, fingerprint, addresses, joinedAt, admitted, live, master, self,
        version: peer?.version ?? null, rttMs: peer?.rttMs ?? null
      }
    }),
    dials: network.dials(),
    removed
  }
}
