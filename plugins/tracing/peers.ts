import { askMember, MemberFault, SvcError } from '../../kernel/index.js'
import type { Caller, Clock, Cluster, NodeView } from '../../kernel/index.js'

/** A node that did not answer with what was asked for. */
export interface FailedPeer { nodeId: string, name: string, reason: string, message: string }

/** What the nodes answered; those that have nothing of it are in neither list. */
export interface Asked<T> { answers: { nodeId: string, value: T }[], failed: FailedPeer[] }

export interface PeersParts {
  cluster: Pick<Cluster, 'nodes' | 'request'>
  clock: Clock
}

/** In whose name the nodes are asked, and until when anybody cares. */
export interface Asker { caller: Caller, signal: AbortSignal }

/** How long one node may take for its whole answer. */
const PEER_MS = 3000
/** Longest answer of a node. */
const BODY_BYTES = 32 * 1024 * 1024

/**
 * Asks every live node but this one. `read` answers null for nonsense. A node that refuses, is late or talks
 * nonsense is named, and holds up nobody for longer than its deadline. Never throws.
 */
export async function askPeers<T> (
  parts: PeersParts, path: string, asker: Asker, read: (text: string) => T | null
): Promise<Asked<T>> {
  const peers = parts.cluster.nodes().filter(({ self, live }) => live && !self)
  const asked: Asked<T> = { answers: [], failed: [] }
  await Promise.all(peers.map(async (peer) => {
    const { nodeId, name } = peer
    try {
      const text = await askOne(parts, peer, path, asker)
      if (text === null) return
      const value = read(text)
      if (value === null) throw new MemberFault('garbage', 'answered with something that is no such trace')
      asked.answers.push({ nodeId, value })
    } catch (error) {
      const known = error instanceof SvcError || error instanceof MemberFault
      const reason = known ? error.reason : 'garbage'
      const message = known ? error.message : 'answered with something that cannot be read'
      asked.failed.push({ nodeId, name, reason, message })
    }
  }))
  return asked
}

/** The text of a node's answer; null when it has no such trace. */
async function askOne (
  parts: PeersParts, peer: NodeView, path: string, { caller, signal }: Asker
): Promise<string | null> {
  try {
    return await askMember(parts, peer, { path, caller, signal, ms: PEER_MS, bytes: BODY_BYTES })
  } catch (error) {
    if (error instanceof MemberFault && error.status === 404) return null
    throw error
  }
}
