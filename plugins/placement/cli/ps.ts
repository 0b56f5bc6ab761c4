import { progressOf } from '../progress.js'
import { partOf, ranksOf } from '../view.js'
import { showBytes } from '../../../kernel/index.js'
import { nameOf } from './api.js'
import type { SeenState } from './api.js'
import { stateText } from './watch.js'
import type { Verb } from '../../../kernel/index.js'

/** A node of an instance as `svc ps` shows it. */
export interface PsNode { nodeId: string, name: string, runnerId: string, state: string }

/** An instance as `svc ps` shows it. */
export interface PsRow {
  instanceId: string
  modelId: string
  state: 'ready' | 'starting' | 'failed'
  error: string | null
  /** Weights on all nodes, bytes. */
  memoryBytes: number
  nodes: PsNode[]
}

export default {
  async run ({ client, out, err }) {
    const state = await client.json<SeenState>('/state')
    const instances = rowsOf(state)
    if (out.json) out.value({ instances })
    else if (instances.length === 0) err.line('nothing is placed; `svc place org/name` does it')
    else {
      out.table(['INSTANCE', 'MODEL', 'NODES', 'STATE', 'MEM'], instances.map((row) => [row.instanceId,
        row.modelId, row.nodes.map(({ name }) => name).join(','), stateOf(state, row),
        showBytes(row.memoryBytes)]))
    }
  }
} satisfies Verb

/** The instances, by model. */
export function rowsOf (state: SeenState): PsRow[] {
  return Object.entries(state.instances).flatMap(([instanceId, instance]) => {
    const progress = progressOf(state, instanceId)
    if (progress.kind === 'gone') return []
    const ranks = ranksOf(instance)
    const runner = (runnerId: string): string => Object.keys(state.runners[runnerId] ?? {})[0] ?? 'RunnerIdle'
    const shown = progress.kind === 'starting'
      ? new Map(progress.ranks.map((rank) => [rank.nodeId, rank.state]))
      : null
    return [{
      instanceId,
      modelId: instance.RingInstance.shardAssignments.modelId,
      state: progress.kind,
      error: progress.kind === 'failed' ? progress.message : null,
      memoryBytes: ranks.reduce((sum, { shard }) => {
        const { of, parts } = partOf(shard)
        return sum + Math.ceil(shard.modelCard.storageSize.inBytes * of / parts)
      }, 0),
      nodes: ranks.map(({ nodeId, runnerId }) => ({
        nodeId, name: nameOf(state, nodeId), runnerId, state: shown?.get(nodeId) ?? runner(runnerId)
      }))
    }]
  }).sort((a, b) => a.modelId < b.modelId ? -1 : a.modelId > b.modelId ? 1 : 0)
}

function stateOf (state: SeenState, { state: kind, error, nodes, modelId }: PsRow): string {
  if (kind === 'failed') return `failed: ${error!}`
  if (kind === 'ready') return 'ready'
  const open = nodes.filter((node) => node.state !== 'RunnerReady' && node.state !== 'RunnerRunning')
  return [...new Set(open.map((node) =>
    stateText(state, node, state.runners[node.runnerId], modelId)))].join(', ')
}
