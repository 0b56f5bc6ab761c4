import { createIdentity } from '../../kernel/cluster.js'
import { clusterHandlers } from './handlers.js'
import { memberKeys, grantableAuthorities } from './identity/admission.js'
import { apisOf, pageOf } from './members/pages.js'
import { NodeLinks } from './open.js'
import { clusterProblems } from './problems.js'
import type { ClusterHost, ClusterOpening, Identity, NodeInfo } from '../../kernel/cluster.js'
import type { ClusterCore } from './cluster.js'
import type { Gossip } from './gossip.js'
import type { Handlers, Network } from './handlers.js'

export interface HostParts {
  readonly node: NodeInfo
  readonly cluster: ClusterCore
  readonly network: Network
  readonly gossip: Gossip
  readonly identity: Identity
  readonly life: Pick<ClusterHost, 'joined' | 'start' | 'stop'>
}

/** Provides the cluster to the kernel, with handlers for the cluster's routes. */
export interface Host extends ClusterHost {
  handlers (authorities: () => string[]): Handlers
}

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
