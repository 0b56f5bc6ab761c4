import { isVerbError } from '../../../kernel/cli/index.js'
import type { ClusterState } from '../../../kernel/cli/index.js'
import type { TurnTools } from '../toolbox.js'
import type { World } from './entities.js'

type Look = TurnTools['context']['look']

/** An instance as in /state: an object whose only key is the kind of the instance. */
type SeenInstance = Record<string, { shardAssignments?: { modelId?: unknown } } | undefined>

interface SeenState extends ClusterState { instances?: Record<string, SeenInstance> }

/** The names that a question may contain: nodes, instances and placed models. */
export async function worldOf (look: Look, nowMs: number, plugins: readonly string[]): Promise<World> {
  const state = await look<SeenState>('/state')
  const zoneMin = -new Date(nowMs).getTimezoneOffset()
  const empty = { models: [], nodes: [], instances: {}, master: null, local: null, nowMs, zoneMin, plugins }
  if (isVerbError(state)) return empty
  const instances = Object.fromEntries(Object.entries(state.instances ?? {}).flatMap(([id, instance]) => {
    const modelId = Object.values(instance)[0]?.shardAssignments?.modelId
    return typeof modelId === 'string' ? [[id, modelId]] : []
  }))
  return {
    ...empty, instances, models: [...new Set(Object.values(instances))], master: state.masterNodeId,
    local: state.localNodeId,
    nodes: Object.entries(state.nodeIdentities)
      .map(([nodeId, { friendlyName }]) => ({ nodeId, name: friendlyName ?? nodeId }))
  }
}

/** Adds the names of all models in the catalogue. */
export async function withCatalogue (world: World, look: Look): Promise<World> {
  const list = await look<{ data: { id: string }[] }>('/v1/models')
  if (isVerbError(list)) return world
  return { ...world, models: [...new Set([...world.models, ...list.data.map(({ id }) => id)])] }
}
