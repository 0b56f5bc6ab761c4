import type { Clock } from '../api/clock.js'
import type { Cluster, Session } from '../api/services.js'

/** In a session younger than this, what its master and the other nodes say may not be here yet, ms. */
export const SESSION_GRACE_MS = 3000

/** The parts of a plugin's context that this needs. */
export interface LearningParts {
  clock: Pick<Clock, 'mono'>
  effect (name: string, stop: () => void): void
  deps: { cluster: Pick<Cluster, 'nodes'>, session: Session }
}

/**
 * Whether this node may not know the cluster's decisions yet: it has no master, or its session is so young
 * that others may still be linking. A lone node always knows.
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
