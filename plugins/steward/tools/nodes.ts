import { fact, formatDuration, quoted } from '../../../kernel/cli/index.js'
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
