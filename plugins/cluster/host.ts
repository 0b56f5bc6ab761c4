import os from 'node:os'
import {
  createIdentity, type ClusterHost, type ClusterOpening, type Identity, type NodeInfo, type ClusterProblems,
  type PageOf
} from '../../kernel/cluster.js'
import { clusterHandlers, type Handlers, type Network } from './handlers.js'
import { memberKeys, grantableAuthorities } from './identity/admission.js'
import { NodeLinks } from './open.js'
import { isLoopbackHost, readAddress } from './identity/addresses.js'
import type { ClusterCore } from './cluster.js'
import type { Gossip } from './gossip.js'
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
