import { joinNodes, readMembers } from '../cluster-view.js'
import { showBytes, showSpan } from '../units.js'
import type { NodeRow, State } from '../cluster-view.js'
import type { Verb } from '../verb.js'

export default {
  async run ({ client, out }) {
    const [state, members] = await Promise.all([client.json<State>('/state'), readMembers(client)])
    const nodes = joinNodes(state, members)
    if (out.json) out.value({ nodes })
    else {
      out.table(['NAME', 'NODE', 'URL', 'VERSION', 'MASTER', 'LIVE', 'MEMORY', 'HEALTH'], nodes.map((node) =>
        [node.name ?? '-', node.nodeId ?? '-', node.url ?? (node.isLocal ? client.url : '-'),
          node.version ?? '-', node.isMaster ? 'yes' : '-', liveness(node), memory(node),
          node.live ? node.health.level : '-']))
    }
  }
} satisfies Verb

function liveness ({ live, lostForSeconds }: NodeRow): string {
  if (live) return 'live'
  return lostForSeconds === null ? 'lost' : `lost ${showSpan(lostForSeconds)}`
}

function memory ({ memoryAvailableBytes: free, memoryTotalBytes: total }: NodeRow): string {
  return free === null || total === null ? '-' : `${showBytes(free)} free of ${showBytes(total)}`
}
