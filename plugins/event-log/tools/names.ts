import { quoted } from '../../../kernel/cli/index.js'
import type { ClusterState, ToolReads } from '../../../kernel/cli/index.js'
import type { NameOf } from './descriptions.js'

/** Maximum number of recorded states to search for names of nodes that have since restarted. */
const EARLIER_MOST = 6

export interface NodeUse { readonly nodeId: string, readonly at: string }

type Identities = ClusterState['nodeIdentities']

/**
 * Resolves node ids to names. A node has a new id after each start, so an old id is looked up in a state that
 * was recorded while it was in use; an id without a name is shortened.
 */
export async function namesOf (look: ToolReads, used: readonly NodeUse[]): Promise<NameOf> {
  const now = await look.read<ClusterState>('The names of the nodes', '/state')
  const known: Record<string, Identities[string]> = { ...now?.nodeIdentities }
  for (let looks = 0; looks < EARLIER_MOST; looks++) {
    const gone = used.findLast(({ nodeId }) => !Object.hasOwn(known, nodeId))
    if (gone === undefined) break
    const then = await look.read<{ state: { nodeIdentities?: Identities } }>(
      'The names that nodes had', `/state?at=${encodeURIComponent(gone.at)}`, 'not_recorded')
    for (const [id, one] of Object.entries(then?.state.nodeIdentities ?? {})) known[id] ??= one
    known[gone.nodeId] ??= { friendlyName: null, svcVersion: '', apiUrl: null }
  }
  return (nodeId) => quoted(known[nodeId]?.friendlyName ?? `node ${nodeId.slice(0, 8)}`, 80)
}
