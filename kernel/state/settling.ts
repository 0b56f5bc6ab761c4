import type { Clock } from '../api/clock.js'
import type { Cluster, Session } from '../api/services.js'

/** In a younger session, reports of its master and of other nodes may not have arrived yet, ms. */
export const SESSION_GRACE_MS = 3000

export interface LearningParts {
  clock: Pick<Clock, 'mono'>
  effect (name: string, stop: () => void): void
  deps: { cluster: Pick<Cluster, 'nodes'>, session: Session }
}

/**
 * Whether this node may not have the cluster's decisions yet: it has no master, or its session is so young
 * that other nodes may still be connecting. Never for a lone node.
 */
export function createSettlingCheck (
  { clock, effect, deps: { cluster, session } }: LearningParts
): () => boolean {
  let { sessionId } = session
  let since = clock.mono()
  effect('age of the session', session.onChange(() => {
    if (session.sessionId === sessionId) return
    sessionId = session.sessionId
    since = clock.mono()
  }))
  return () => cluster.nodes().length > 1 &&
    (session.masterNodeId === null || clock.mono() - since < SESSION_GRACE_MS)
}
