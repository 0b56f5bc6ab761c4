import type { Clock } from '../api/clock.js'
import type { Cluster, Session } from '../api/services.js'

/** Milliseconds allowed after a new session begins for reports to arrive from its master and other nodes. */
export const SESSION_GRACE_MS = 3000

export interface LearningParts {
  clock: Pick<Clock, 'mono'>
  effect (name: string, stop: () => void): void
  deps: { cluster: Pick<Cluster, 'nodes'>, session: Session }
}

/**
 * Whether this node may still lack the cluster's decisions, because it has no master or the session is so new
 * that other nodes may still be connecting. Never true for a node outside a cluster.
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
