import { SIGN_MS } from './limits.js'
import type { Clock, Cluster } from '../../kernel/index.js'
import type { EventLog } from './log.js'

const MOST_NODES = 256

/**
 * A newly indexed event is a sign of life of the node where it happened, also when another node tells it. Not
 * so an old one, which comes when this node catches up. Returns what stops it.
 */
export function tellSigns (
  log: EventLog, cluster: Pick<Cluster, 'lives'>, clock: Clock, self: string
): () => void {
  const told = new Map<string, number>()
  return log.onChange((change) => {
    if (change.type !== 'append') return
    const { origin, at } = change.entry
    const now = clock.mono()
    if (origin === self || now - (told.get(origin) ?? -Infinity) < SIGN_MS) return
    // By the clocks of two machines: where they differ, heartbeats alone have to do.
    if (!(Math.abs(clock.now() - Date.parse(at)) < SIGN_MS)) return
    // Node ids are new after each start.
    if (told.size >= MOST_NODES) told.clear()
    told.set(origin, now)
    cluster.lives(origin)
  })
}
