import type { ClusterProblems, NodeInfo } from '../../kernel/cluster.js'
import type { ClusterCore } from './cluster.js'
import type { Network } from './handlers.js'

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
