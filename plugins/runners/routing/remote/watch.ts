import type { Clock, Cluster } from '../../../../kernel/index.js'

/** How often an open task looks whether the other node is still there. */
const LOOK_MS = 1_000

/**
 * Calls `gone` once the cluster no longer counts a node as live: a connection cut in the middle of nowhere
 * would not show for a long time. Returns what stops looking.
 */
export function watchNode (
  cluster: Pick<Cluster, 'resolve'>, clock: Clock, installId: string, gone: () => void
): () => void {
  return clock.every(LOOK_MS, () => {
    if (cluster.resolve(installId)?.live !== true) gone()
  })
}
