import { randomUUID } from 'node:crypto'
import { kernelError, noSuchNode, Reply, type RouteRequest } from '../../kernel/cluster.js'
import { probeBody } from './links/bandwidth.js'
import { isRemote } from './identity/addresses.js'
import { admitterOf } from './identity/admission.js'
import { TOUCH_COMMAND, type clusterRoutes } from './routes.js'
import type { ClusterCore } from './cluster.js'
import type { JoinTokens, Maker } from './identity/join-tokens.js'
import type { NodeLinks } from './open.js'

export interface Network extends Pick<
  NodeLinks,
  'members' | 'peers' | 'dials' | 'links' | 'copies' | 'addresses' | 'openOutside' | 'invite' |
  'bytesPerSecond' | 'quorum'
> {
  readonly joinTokens: Pick<JoinTokens, 'list' | 'revoke'>
}

const JOIN_SECONDS = 900
/** Header with a client's command id, which lets it retry the same command. */
export const COMMAND_HEADER = 'x-svc-command-id'
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** `authorities`: all that the kernel and its plugins declare. */
export interface ClusterRouteParts { cluster: ClusterCore, network: Network, authorities: () => string[] }

type Routes = typeof clusterRoutes
export type Handlers = { [K in keyof Routes]: (request: RouteRequest<Routes[K]>) => unknown }

export function clusterHandlers (parts: ClusterRouteParts): Handlers {
  const { cluster, network } = parts
  return {
    joinToken: (request) =>
      joinToken(network, request.body ?? {}, admitterOf(request.caller, parts.authorities())),
    joinTokens: () => ({ tokens: network.joinTokens.list() }),
    revokeJoinToken: (request) => {
      const { id } = request.params
      if (network.joinTokens.revoke(id)) return { id, revoked: true }
      throw kernelError('not_found', `This node has no open join token ${id}; svc join-token ls lists them.`)
    },
    members: () => memberList(parts),
    removeMember: async (request) => {
      const { id } = request.params
      const member = cluster.directory.resolve(id)
      if (member === undefined) throw noSuchNode(id, cluster.directory.nodes())
      const { installId } = member
      await cluster.membership.remove(installId)
      return { installId, removed: true, admitted: cluster.service.admittedBy(installId) }
    },
    touch: async (request) => {
      const id = commandId(request.headers[COMMAND_HEADER])
      const { receipt: { sid, term, seq } } = await cluster.commands.run(TOUCH_COMMAND, {}, id)
      return { sid, term, seq, command_id: id }
    },
    probe: (request) => {
      if (request.member === null) throw kernelError('not_found', 'Only members may measure links.')
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
  if (body.local !== true && !addresses.some(isRemote)) {
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
