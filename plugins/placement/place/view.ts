import type { Bundle, EngineDecl, ModelCard, NodeReport } from '../../../kernel/index.js'
import { needOf } from '../planner/memory.js'
import type { Part } from '../planner/memory.js'
import type { ClusterView, EngineTraits, InstanceMemory, MemoryClaim, NodeFacts } from '../planner/types.js'
import { bodyOf } from '../../runners/service.js'
import type { Instance, Releasing, ShardBody } from '../../runners/service.js'
import type { Facts } from '../facts.js'

/** Memory in use per byte of weights of an engine that declares nothing else. */
const OVERHEAD = 1.30

/** What an engine can do, with what is assumed of one that does not say. */
export function traitsOf (decl: EngineDecl): EngineTraits {
  const { backends, multiNode = false, meta, tensor = false, overhead = OVERHEAD } = decl
  return { multiNode, tensor, overhead, backends, ...(meta === 'LlamaRpc' ? { meta } : {}) }
}

/** What a view is made of. */
export interface ViewParts {
  bundle: Pick<Bundle, 'engines'>
  /** Node id to the bytes of the model that lie there. */
  stagedBytes (modelId: string): ReadonlyMap<string, number>
  /** Instances that are removed and still give their memory back, with the nodes on which they do. */
  releasing: readonly Releasing[]
}

/**
 * The cluster as the planner sees it; a node that is not live, or is leaving, is no part of it. Pure but for
 * `parts`.
 */
export function viewOf (parts: ViewParts, facts: Facts, modelId: string): ClusterView {
  const engines = Object.fromEntries(parts.bundle.engines().map(({ name, decl }) => [name, traitsOf(decl)]))
  const staged = parts.stagedBytes(modelId)
  const reports = facts.nodes.filter(({ view }) => view.live && view.leaving !== true)
  const nodes = reports.map((report) =>
    factsOf(report, engines, new Map([[modelId, staged.get(report.view.nodeId) ?? 0]])))
  const there = new Set(nodes.map(({ nodeId }) => nodeId))
  const instances = memoryOf(facts, engines, nodes)
  return {
    nodes,
    edges: reports.flatMap(({ view, links }) => links.map(({ nodeId: to }) => ({ from: view.nodeId, to })))
      .filter(({ to }) => there.has(to)),
    engines,
    reservations: instances.flatMap(({ reserved }) => reserved),
    releasing: parts.releasing.flatMap(({ instance, nodeIds }) =>
      claimsOn(instance, nodeIds, engines, nodes)),
    instances: instances.map(({ shown }) => shown).filter(({ memory }) => memory.length > 0)
  }
}

function factsOf (
  { view: { nodeId, installId, name }, memory, system, resources }: NodeReport,
  engines: ClusterView['engines'], stagedBytes: ReadonlyMap<string, number>
): NodeFacts {
  const gpu = system?.accelerator
  return {
    nodeId, installId, name, stagedBytes,
    memory: memory === null
      ? null
      : { ramTotal: memory.ramTotal.inBytes, ramAvailable: memory.ramAvailable.inBytes },
    // Without a reading of what is in use there is no telling what is free.
    vram: gpu?.vramTotalBytes == null || gpu.vramUsedBytes == null
      ? null
      : { total: gpu.vramTotalBytes, used: gpu.vramUsedBytes },
    backends: resources === null ? null : backendsOf(resources.backends, engines),
    participation: resources?.participation ?? null,
    lends: resources?.['rpcForEveryUser'] !== false
  }
}

/** Each engine with those of its backends that the node offers. */
function backendsOf (
  offered: readonly string[], engines: ClusterView['engines']
): Record<string, readonly string[]> {
  return Object.fromEntries(Object.entries(engines).map(([name, { backends }]) =>
    [name, backends.filter((backend) => offered.includes(backend))]))
}

/** A runner in one of these has its model in memory: the readings show it. */
const LOADED = new Set([
  'RunnerLoaded', 'RunnerWarmingUp', 'RunnerReady', 'RunnerRunning', 'RunnerShuttingDown'
])
/** A runner in one of these takes no memory and will not. */
const ENDED = new Set(['RunnerFailed', 'RunnerShutdown'])

/** What the instances take: reserved while their runners load, shown once they have. */
function memoryOf (
  facts: Facts, engines: ClusterView['engines'], nodes: readonly NodeFacts[]
): { reserved: MemoryClaim[], shown: InstanceMemory }[] {
  const byId = new Map(nodes.map((node) => [node.nodeId, node]))
  return Object.values(facts.instances).map((instance) => {
    const { instanceId, shardAssignments: { modelId } } = bodyOf(instance)
    const reserved: MemoryClaim[] = []
    const memory: MemoryClaim[] = []
    for (const { nodeId, runnerId, shard } of ranksOf(instance)) {
      const kind = Object.keys(facts.runners[runnerId] ?? {})[0] ?? 'RunnerIdle'
      const node = byId.get(nodeId)
      if (node === undefined || ENDED.has(kind)) continue
      const claim = { nodeId, ...claimOf(instance, shard, engines, node) }
      if (LOADED.has(kind)) memory.push(claim)
      else reserved.push(claim)
    }
    return { reserved, shown: { instanceId, modelId, memory } }
  })
}

/** What an instance has of the memory of these nodes. */
function claimsOn (
  instance: Instance, nodeIds: readonly string[], engines: ClusterView['engines'], nodes: readonly NodeFacts[]
): MemoryClaim[] {
  return ranksOf(instance).flatMap(({ nodeId, shard }) => {
    const node = nodes.find((one) => one.nodeId === nodeId)
    return node === undefined || !nodeIds.includes(nodeId)
      ? []
      : [{ nodeId, ...claimOf(instance, shard, engines, node) }]
  })
}

/** One rank of an instance. */
export interface Rank { nodeId: string, runnerId: string, shard: ShardBody, tensor: boolean }

/** The ranks of an instance by their number; a runner without a shard is left out. */
export function ranksOf (instance: Instance): Rank[] {
  const { shardAssignments } = bodyOf(instance)
  return Object.entries(shardAssignments.nodeToRunner).flatMap(([nodeId, runnerId]) => {
    const [tag, shard] = Object.entries(shardAssignments.runnerToShard[runnerId] ?? {})[0] ?? []
    return shard === undefined
      ? []
      : [{ nodeId, runnerId, shard: shard, tensor: tag === 'TensorShardMetadata' }]
  }).sort((a, b) => a.shard.deviceRank - b.shard.deviceRank)
}

function claimOf (
  instance: Instance, shard: ShardBody, engines: ClusterView['engines'], node: NodeFacts
): { backend: string, bytes: number } {
  const card = cardOf(shard)
  const { engine } = bodyOf(instance)
  const traits = engines[engine]
  return {
    backend: node.backends?.[engine]?.find((name) => card.backends.includes(name)) ?? 'cpu',
    bytes: needOf(card, traits?.overhead ?? OVERHEAD, partOf(shard)).neededBytes
  }
}

/** The part of the model that a shard is: a tensor rank has every layer, so its part is one of all ranks. */
export function partOf ({ startLayer, endLayer, nLayers, worldSize }: ShardBody): Part {
  const whole = endLayer - startLayer === nLayers
  return whole ? { of: 1, parts: worldSize } : { of: endLayer - startLayer, parts: nLayers }
}

/** The card of a shard, with plain bytes. */
export function cardOf ({ modelCard }: ShardBody): ModelCard {
  const { storageSize, files, ...rest } = modelCard
  return {
    ...rest,
    totalBytes: storageSize.inBytes,
    files: files.map(({ size, ...file }) => ({ ...file, bytes: size.inBytes }))
  }
}
