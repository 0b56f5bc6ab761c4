import { isVerbError, modelInPath, plain } from '../../../kernel/cli/index.js'
import type { CheckContext, ClusterState, StatusPart } from '../../../kernel/cli/index.js'

/** What GET /state says of instances; a lone or an older node may leave some out. */
export interface ModelState extends ClusterState {
  instances?: Record<string, Record<string, unknown>>
  runners?: Record<string, Record<string, unknown>>
  waitingInstances?: Record<string, { modelId: string }>
}

/** Instances, and models that cannot be asked. */
export default {
  async run ({ state, look }) {
    const instances = instancesOf(state)
    const unavailable = await readUnavailable(look, unservedModels(state))
    return {
      json: { instances, unavailable },
      above: [`Instances: ${instances.filter((one) => one.ready).length} of ${instances.length} ready`],
      below: unavailable.map(({ modelId, brokenLink, message, remedy }) =>
        `${modelId}: ${plain(message)} [${brokenLink}]\n  ${plain(remedy)}`)
    }
  }
} satisfies StatusPart

interface InstanceRow { instanceId: string, modelId: string | null, ready: boolean }

const SERVING = new Set(['RunnerReady', 'RunnerRunning'])

/** The instances, each ready when all of its runners can serve. */
function instancesOf ({ instances = {}, runners = {} }: ModelState): InstanceRow[] {
  return Object.entries(instances).map(([instanceId, tagged]) => {
    const { shardAssignments } = (Object.values(tagged)[0] ?? {}) as
      { shardAssignments?: { modelId?: string, runnerToShard?: Record<string, unknown> } }
    const ids = Object.keys(shardAssignments?.runnerToShard ?? {})
    const serves = (id: string): boolean => SERVING.has(Object.keys(runners[id] ?? {})[0] ?? '')
    const modelId = shardAssignments?.modelId ?? null
    return { instanceId, modelId, ready: ids.length > 0 && ids.every(serves) }
  })
}

/** The models of which an instance does not serve, or waits for a place. */
function unservedModels (state: ModelState): string[] {
  const unready = instancesOf(state)
    .flatMap(({ modelId, ready }) => modelId === null || ready ? [] : [modelId])
  const waiting = Object.values(state.waitingInstances ?? {}).map(({ modelId }) => modelId)
  return [...new Set([...unready, ...waiting])].sort()
}

/** What keeps a model from answering, and what mends it. */
interface Unavailable { modelId: string, brokenLink: string, message: string, remedy: string }

/** Those of the models that cannot be asked; nothing of one about which the node does not tell. */
async function readUnavailable (
  look: CheckContext['look'], models: readonly string[]
): Promise<Unavailable[]> {
  const all = await Promise.all(models.map((id) =>
    look<Availability>(`/models/${modelInPath(id)}/availability`)))
  return all.flatMap((one) => isVerbError(one) || one.available
    ? []
    : [{ modelId: one.model_id, brokenLink: one.broken_link!, message: one.message!, remedy: one.remedy! }])
}

/** The body of GET /models/{id}/availability; the last three are null where it is available. */
interface Availability {
  model_id: string, available: boolean, broken_link: string | null, message: string | null
  remedy: string | null
}
