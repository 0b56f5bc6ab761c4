import { SIGN_MS } from './limits.js'
import type { Clock, Cluster } from '../../kernel/index.js'
import type { EventLog } from './log.js'

const MOST_NODES = 256

/**
 * Reports an event that just happened as a sign of life of its node, whoever sent it. An old event, which
 * comes when this node catches up, is none. Returns a function that stops it.
 */
export function reportLife (
  log: EventLog, cluster: Pick<Cluster, 'lives'>, clock: Clock, self: string
): () => void {
  const reported = new Map<string, number>()
  return log.onChange((change) => {
    if (change.type !== 'append') return
    const { origin, at } = change.entry
    const now = clock.mono()
    if (origin === self || now - (reported.get(origin) ?? -Infinity) < SIGN_MS) return
    // Compares the clocks of two machines: where they differ, only heartbeats count.
    if (!(Math.abs(clock.now() - Date.parse(at)) < SIGN_MS)) return
    // Node ids are new after each start.
    if (reported.size >= MOST_NODES) reported.clear()
    reported.set(origin, now)
    cluster.lives(origin)
  })
}
