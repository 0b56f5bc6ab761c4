import { fact, formatDuration, quoted, showTime } from '../../../kernel/cli/index.js'
import { startOrRemove } from '../../cluster/cli/nodes.js'
import type { Evidence, Fact, ToolReads } from '../../../kernel/cli/index.js'
import type { MemberList, NodeRow } from '../../cluster/cli/nodes.js'

export const STATE: Evidence = { kind: 'path', path: '/state' }

/** The member list; it adds nodes that were never present in this session. Null if it cannot be read. */
export const membersOf = async ({ read }: ToolReads): Promise<MemberList | null> =>
  await read<MemberList>('The members', '/cluster/members', 'plugin_disabled', 'unauthenticated',
    'missing_grant')

export const nameOf = ({ name, nodeId }: Pick<NodeRow, 'name' | 'nodeId'>): string =>
  quoted(name ?? nodeId ?? 'a node', 80)

export const evidenceOf = ({ name, nodeId }: Pick<NodeRow, 'name' | 'nodeId'>): Evidence[] =>
  nodeId === null ? [STATE] : [{ kind: 'node', nodeId, name: nameOf({ name, nodeId }) }]

/** The fact that a node is lost. */
export function lostFact (node: NodeRow): Fact {
  const { lostForSeconds: seconds, installId } = node
  const since =
    seconds === null ? 'has not been seen in this session' : `is lost for ${formatDuration(seconds)}`
  return fact('fail', 'node_lost', `${nameOf(node)} ${since}.`, {
    about: [nameOf(node)], evidence: evidenceOf(node), remedy: startOrRemove(installId ?? nameOf(node))
  })
}

/** Limit on reported removals, and their maximum age in ms. */
const MOST = 3
const RECENT_MS = 24 * 3_600_000

interface Removal { idx: number, at: string, event: { NodeRemoved?: { nodeId: string, name: string } } }

/** Facts about the nodes that were removed in the last day; each has the node's name and id in `about`. */
export async function removals ({ read }: ToolReads, nowMs: number): Promise<Fact[]> {
  const page = await read<{ events: Removal[] }>('Whether nodes were removed',
    `/events?kinds=NodeRemoved&limit=${MOST}`, 'plugin_disabled', 'unauthenticated', 'missing_grant')
  const recent = (page?.events ?? []).filter(({ at, event }) =>
    event.NodeRemoved !== undefined && nowMs - Date.parse(at) < RECENT_MS)
  return recent.toReversed().map(({ idx, at, event: { NodeRemoved: gone } }) => {
    const [nodeId, name] = [quoted(gone!.nodeId, 80), quoted(gone!.name, 80)]
    return fact('info', 'node_removed',
      `${name} was removed from the cluster at ${showTime(Date.parse(at), nowMs)}.`, {
        about: [...new Set([name, nodeId])],
        evidence: [{ kind: 'event', idx, at, name: 'NodeRemoved' }],
        remedy: 'To have it back: `svc join-token` at a member, and `SVC_JOIN=TOKEN svc up` there with a ' +
          'new home.'
      })
  })
}
