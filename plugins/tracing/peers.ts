import { askMembers, MemberFault } from '../../kernel/index.js'
import type { Caller, Clock, Cluster } from '../../kernel/index.js'

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
  parts: PeersParts, path: string, { caller, signal }: Asker, read: (text: string) => T | null
): Promise<Asked<T>> {
  const peers = parts.cluster.nodes().filter(({ self, live }) => live && !self)
  const asked: Asked<T> = { answers: [], failed: [] }
  const question = { path, caller, signal, ms: PEER_MS, bytes: BODY_BYTES, read }
  const said = await Promise.all(askMembers(parts, peers, question))
  for (const { node: { nodeId, name }, value, error } of said) {
    if (error === null) asked.answers.push({ nodeId, value })
    // 404: it has no such trace.
    else if (!(error instanceof MemberFault && error.status === 404)) {
      asked.failed.push({ nodeId, name, reason: error.reason, message: error.message })
    }
  }
  return asked
}
