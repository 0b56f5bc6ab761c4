import { fact, quoted, showTime } from '../../../kernel/cli/index.js'
import type { ClusterState, Fact, Reading } from '../../../kernel/cli/index.js'

/** Removals that are looked at, and how old one may be, ms. */
const MOST = 3
const RECENT_MS = 24 * 3_600_000

/** An event of GET /events. */
interface Removal { idx: number, at: string, event: { NodeRemoved?: { nodeId: string } } }

/** The nodes that were removed in the last day, the newest first; `about` has the name and id of each. */
export async function removals ({ read }: Reading, nowMs: number): Promise<Fact[]> {
  const page = await read<{ events: Removal[] }>('Whether nodes were removed',
    `/events?kinds=NodeRemoved&limit=${MOST}`, 'plugin_disabled', 'unauthenticated', 'missing_grant')
  const recent = (page?.events ?? []).filter(({ at, event }) =>
    event.NodeRemoved !== undefined && nowMs - Date.parse(at) < RECENT_MS)
  return await Promise.all(recent.toReversed().map(async ({ idx, at, event: { NodeRemoved: gone } }) => {
    const nodeId = quoted(gone!.nodeId, 80)
    // An event has no names: that of then is in the state of then.
    const then = await read<{ state: Partial<ClusterState> }>(
      'What it was called', `/state?at=${encodeURIComponent(at)}`, 'not_recorded')
    const name = quoted(then?.state.nodeIdentities?.[nodeId]?.friendlyName ?? nodeId, 80)
    return fact('info', 'node_removed',
      `${name} was removed from the cluster at ${showTime(Date.parse(at), nowMs)}.`, {
        about: [...new Set([name, nodeId])],
        evidence: [{ kind: 'event', idx, at, name: 'NodeRemoved' }],
        remedy: 'To have it back: `svc join-token` at a member, and `SVC_JOIN=TOKEN svc up` there with a ' +
          'new home.'
      })
  }))
}
