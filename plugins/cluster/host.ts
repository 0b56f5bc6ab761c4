import { randomUUID } from 'node:crypto'
import os from 'node:os'
import {
  createIdentity, kernelError, noSuchNode, Reply, type ClusterHost, type ClusterOpening, type ClusterProblems,
  type Identity, type NodeInfo, type PageOf, type RouteRequest
} from '../../kernel/cluster.js'
import { admitterOf, grantableAuthorities, memberKeys } from './identity/admission.js'
import { isLoopbackHost, isRemote, readAddress } from './identity/addresses.js'
import { probeBody } from './links/bandwidth.js'
import { NodeLinks } from './open.js'
import { TOUCH_COMMAND, type clusterRoutes } from './routes.js'
import type { ClusterCore } from './cluster.js'
import type { Gossip } from './gossip.js'
import type { JoinTokens, Maker } from './identity/join-tokens.js'
import type { Members } from './members/file.js'

interface HostParts {
  readonly node: NodeInfo, readonly cluster: ClusterCore, readonly network: Network
  readonly gossip: Gossip, readonly identity: Identity
  readonly life: Pick<ClusterHost, 'joined' | 'start' | 'stop'>
}

/** Provides the cluster to the kernel, with handlers for the cluster's routes. */
export interface Host extends ClusterHost { handlers (authorities: () => string[]): Handlers }

export async function openHost (opening: ClusterOpening): Promise<Host> {
  const links = await NodeLinks.open(opening)
  const { cluster, gossip, key, members } = links
  const identity = createIdentity(key, memberKeys(members))
  return hostOf({ node: opening.node, cluster, network: links, gossip, identity, life: links })
}

export function hostOf ({ node, cluster, network, gossip, identity, life }: HostParts): Host {
  const { members } = network
  return {
    identity, network, readings: gossip, joined: life.joined,
    start: (handler, audit) => { life.start(handler, audit) },
    stop: async () => { await life.stop() },
    handlers: (authorities) => clusterHandlers({ cluster, network, authorities }),
    service: cluster.service, session: cluster.session,
    sections: cluster.sections, commands: cluster.commands, directory: cluster.directory,
    get storing () { return cluster.storing },
    status: () => cluster.status(),
    problems: () => clusterProblems({ node, cluster, network }),
    vouched: (installId, authorities) => grantableAuthorities(members.find(installId), authorities),
    pageOf: (origin) => pageOf(origin, apisOf({ cluster, network })),
    openStream: (id, end) => cluster.openStream(id, end),
    onChange (fn) {
      const stops = [cluster.service.onPeers(fn), cluster.session.onChange(fn), cluster.control.observe(fn),
        cluster.replicas.observe(fn)]
      return () => { for (const stop of stops) stop() }
    },
    onStoring: (fn) => cluster.disk.changed.add(fn),
    leave: () => { cluster.leave() }
  }
}

export function clusterProblems (
  { node, cluster, network }: { node: NodeInfo, cluster: ClusterCore, network: Network }
): ClusterProblems {
  const peers = network.peers().map((peer) =>
    ({ ...peer, kinds: [...cluster.dropped.of(peer.installId).keys()] }))
  const strange = peers.find(({ version, kinds }) => version !== node.version || kinds.length > 0)
  // Release 0.1.0 does not send its quorum setting.
  const other = peers.find(({ quorum }) => quorum !== undefined && quorum !== network.quorum)
  const removedBy = network.dials().find(({ reason }) => reason === 'removed')
  const removed = network.members.current().removed.some(({ installId }) => installId === node.installId)
  const copies = network.copies()
  return {
    version_mismatch: strange === undefined ? null
      : `${node.version} here, ${strange.version} on ${strange.name}.` +
        (strange.kinds.length === 0 ? '' : ` Unknown messages: ${strange.kinds.join(', ')}.`),
    quorum_mismatch: other === undefined ? null : `${network.quorum} here, ${other.quorum} on ${other.name}.`,
    node_removed: removedBy !== undefined ? `Reported by the member at ${removedBy.address}.`
      : removed ? 'Reported by its own member list.' : null,
    node_copied: copies.length === 0 ? null : copies.join(' ')
  }
}

export interface KnownApi { readonly apiUrl: unknown, readonly address: string | undefined }

interface ApiSources {
  cluster: Pick<ClusterCore, 'replicas' | 'directory' | 'service'>
  network: { readonly members: Pick<Members, 'find'> }
}

function * apisOf ({ cluster, network }: ApiSources): Iterable<KnownApi> {
  for (const { installId, key, value } of cluster.replicas.entries()) {
    if (key !== 'node/identity' || installId === cluster.service.self.installId) continue
    if (network.members.find(installId) === undefined) continue
    const { apiUrl } = value as { apiUrl?: unknown }
    yield { apiUrl, address: cluster.directory.addressOf(installId) }
  }
}

/** Where the member with an API at this origin is; a loopback origin matches only this machine. */
export function pageOf (
  origin: string, members: Iterable<KnownApi>, isOwn: (host: string) => boolean = isOwnAddress
): PageOf | null {
  let found: PageOf | null = null
  for (const { apiUrl, address } of members) {
    if (typeof apiUrl !== 'string' || !URL.canParse(apiUrl)) continue
    const url = new URL(apiUrl)
    if (url.origin !== origin || (url.protocol !== 'http:' && url.protocol !== 'https:')) continue
    const from = address === undefined ? undefined : readAddress(address)?.host
    if (from !== undefined && (isLoopbackHost(from) || isOwn(from))) return 'here'
    if (!isLoopbackHost(url.hostname.replace(/^\[|\]$/g, ''))) found = 'elsewhere'
  }
  return found
}

/** Whether the address belongs to this machine, so a connection from it is local. */
function isOwnAddress (host: string): boolean {
  const plain = host.replace(/^::ffff:/, '')
  return Object.values(os.networkInterfaces()).some((list) => list?.some(({ address }) => address === plain))
}

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
    dials: network.dials(), removed
  }
}
