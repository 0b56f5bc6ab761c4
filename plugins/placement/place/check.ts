import { badField, kernelError, SvcError, type ModelCard } from '../../../kernel/index.js'
import { needOf } from '../../runners/cards/memory-forecast.js'
import { runsOn } from '../../runners/cards/backends.js'
import { deviceOf, gib, isGpu, memoryTraits, usableOf } from '../planner/memory.js'
import type { ClusterView, PlanRequest } from '../planner/types.js'
import { planWithoutSuggestions } from '../planner/index.js'
import { refusalError, refuse } from '../errors.js'
import { bodyOf, devicePartsOf, type PendingInstance, type Instance } from '../../runners/service.js'
import { cardOf, idOf, ranksOf, type Rank } from './instance.js'
import { ENGINES, type Planning } from './planning.js'
import { LEAST_CHOSEN } from '../planner/solve.js'
import type { MemoryFit, MemoryPlanner } from '../../staging/service.js'

/**
 * Checks the consistency of an instance that is valid under its schema. Throws `invalid_request` naming the
 * field. `checkFits` checks whether the cluster can run the instance.
 */
export function checkForm (instance: Instance, card: ModelCard): void {
  const at = `instance.${Object.keys(instance)[0]}`
  const { contextTokenLimit, engine, shardAssignments: { runnerToShard, nodeToRunner } } = bodyOf(instance)
  const [nodes, shards] = ['nodeToRunner', 'runnerToShard'].map((name) => `${at}.shardAssignments.${name}`)
  const runners = Object.values(nodeToRunner)
  const without = runners.find((runnerId) => !Object.hasOwn(runnerToShard, runnerId))
  check([
    [contextTokenLimit <= card.contextLength, `${at}.contextTokenLimit`,
      `must be at most ${card.contextLength}, the context of ${card.modelId}`],
    [engine === card.engine, `${at}.engine`, `must be ${card.engine}, the engine of ${card.modelId}`],
    [new Set(runners).size === runners.length, nodes!, 'must name each runner once'],
    [without === undefined, shards!, `has no shard for the runner ${without}`],
    [Object.keys(runnerToShard).length === runners.length, shards!, 'names a runner that is on no node']
  ])
  const ranks = ranksOf(instance)
  ranks.forEach((rank, place) => { checkShard(rank, place, ranks, card, shards!) })
  if (!('LlamaRpcInstance' in instance)) return
  check([
    [ranks.length > 1, at, 'must be a RingInstance: it has one node only'],
    [instance.LlamaRpcInstance.driverNode === ranks[0]!.nodeId, `${at}.driverNode`,
      'must be the node of the shard with deviceRank 0']
  ])
}

function checkShard (
  { runnerId, shard, tensor }: Rank, place: number, ranks: readonly Rank[], card: ModelCard, shards: string
): void {
  const at = `${shards}.${runnerId}`
  const { modelId, nLayers } = card
  const { startLayer, endLayer, gpuLayers = [] } = shard
  const held = gpuLayers.reduce((sum, count) => sum + count, 0)
  const start = tensor || place === 0 ? 0 : ranks[place - 1]!.shard.endLayer
  const last = tensor || place === ranks.length - 1
  check([
    [tensor === ranks[0]!.tensor, at, 'must be split like the others'],
    [!tensor || ranks.length > 1, at, 'must be a PipelineShardMetadata: it is the only one'],
    [shard.modelCard.modelId === modelId, `${at}.modelCard.modelId`, `must be ${modelId}`],
    [shard.worldSize === ranks.length, `${at}.worldSize`, `must be ${ranks.length}`],
    [shard.nLayers === nLayers, `${at}.nLayers`, `must be ${nLayers}`],
    [shard.deviceRank === place, `${at}.deviceRank`, 'must count from 0 without gaps'],
    [startLayer === start, `${at}.startLayer`, `must be ${start}`],
    [!last || endLayer === nLayers, `${at}.endLayer`, `must be ${nLayers}`],
    [last || (endLayer > start && endLayer <= nLayers), `${at}.endLayer`,
      `must be above ${start} and at most ${nLayers}`],
    [gpuLayers.length === 0 || (held > 0 && held <= endLayer - startLayer), `${at}.gpuLayers`,
      `must name 1 to ${endLayer - startLayer} layers in all, or be empty`]
  ])
}

function check (rules: readonly (readonly [holds: boolean, path: string, message: string])[]): void {
  const broken = rules.find(([holds]) => !holds)
  if (broken !== undefined) throw badField(broken[1], broken[2])
}

/**
 * Throws a refusal if these nodes cannot run the instance: the planner refuses them, a link is missing, or a
 * rank's layers do not fit. Throws `info_pending` for missing readings, and `node_not_found` for a node that
 * is not live.
 */
export function checkFits (instance: Instance, card: ModelCard, view: ClusterView): void {
  const ranks = ranksOf(instance)
  const chosen = new Set(ranks.map(({ nodeId }) => nodeId))
  for (const nodeId of chosen) {
    if (view.nodes.some((node) => node.nodeId === nodeId)) continue
    throw kernelError('node_not_found', `No node ${nodeId.slice(0, 128)} is live.`)
  }
  const request: PlanRequest = {
    card, contextLength: bodyOf(instance).contextTokenLimit, slots: bodyOf(instance).slots,
    sharding: ranks[0]!.tensor ? 'Tensor' : 'Pipeline',
    instanceMeta: 'LlamaRpcInstance' in instance ? 'LlamaRpc' : 'Ring', minNodes: ranks.length,
    force: false,
    excluded: view.nodes.map(({ nodeId }) => nodeId).filter((nodeId) => !chosen.has(nodeId))
  }
  const result = planWithoutSuggestions(request, view)
  if (!result.ok) throw refusalError(result)
  checkLinks([...chosen], request, view)
  for (const rank of ranks) checkShare(instance, card, rank, view)
}

/** Checks the links in the order of the given nodes, which may differ from the planner's order. */
function checkLinks (
  ids: readonly string[], { instanceMeta }: PlanRequest, { nodes, edges }: ClusterView
): void {
  const live = new Set(edges.map(({ from, to }) => `${from} ${to}`))
  const star = instanceMeta === 'LlamaRpc'
  ids.forEach((one, i) => {
    const other = star ? ids[0]! : ids[(i + 1) % ids.length]!
    if (one === other || (live.has(`${one} ${other}`) && live.has(`${other} ${one}`))) return
    const [a, b] = (star ? [other, one] : [one, other])
      .map((id) => nodes.find((node) => node.nodeId === id)?.name ?? id)
    const how = star ? 'are the driver and a donor' : 'are next to each other in the ring'
    throw refuse('no_connected_cycle', `${a} and ${b} ${how} and are not connected in both directions.`)
  })
}

function checkShare (instance: Instance, card: ModelCard, { nodeId, shard }: Rank, view: ClusterView): void {
  const node = view.nodes.find((one) => one.nodeId === nodeId)!
  const traits = view.engines[card.engine]!
  const told = { ...node, memory: node.memory! }
  const backends = traits.backends.filter((name) =>
    runsOn(card, name) && node.backends?.[card.engine]?.includes(name) === true)
  for (const { gpu, part } of devicePartsOf(shard)) {
    const { contextTokenLimit: context, slots } = bodyOf(instance)
    const onGpu = gpu !== null && isGpu(node, backends[0] ?? 'cpu')
    const need = needOf(card, memoryTraits(traits, card.engine, node), { context, slots, part, gpu: onGpu })
    const offers = (gpu === null ? ['cpu'] : backends).map((backend) =>
      ({ backend, device: deviceOf(node, { backend, gpu: gpu ?? 0 }) }))
      .filter(({ device }) => device === 'ram' || device < node.gpus.length)
      .map(({ backend, device }) => ({ backend, ...usableOf(told, device, view) }))
    const best = Math.max(0, ...offers.map(({ usableBytes }) => usableBytes))
    if (need.neededBytes < best) continue
    const where = shard.gpuLayers === undefined ? '' : gpu === null ? ' on its CPU' : ` on GPU ${gpu}`
    throw refuse('insufficient_memory',
      `${node.name} needs ${gib(need.neededBytes)}${where} for layers ${shard.startLayer} to ` +
      `${shard.endLayer} and can use ${gib(best)}; it must be less.`,
      { instanceId: idOf(instance), nodes: [{ nodeId, name: node.name, need, offers }] })
  }
}

/**
 * Repeats the check on the master, because two nodes may have planned for the same memory at the same time.
 * Throws the refusal reason, but accepts missing readings, which only the planning node may have.
 */
export function checkEntering (planning: Planning, { instance, instances }: PendingInstance): void {
  const { placement, shardAssignments: { modelId } } = bodyOf(instance)
  const id = placement?.replaces ?? null
  // An earlier master's command may arrive after the current master has already placed the entry.
  const done = instances.some((one) => id !== null && bodyOf(one).placement?.replaces === id)
  if (id !== null && (done || planning.ctx.sections.waiting.get(id) === undefined)) {
    throw refuse('not_waiting', `No instance waits for a place as ${id}.`)
  }
  const there = Object.fromEntries(instances.map((one) => [idOf(one), one]))
  const card = planning.known(modelId) ?? cardOf(ranksOf(instance)[0]!.shard)
  try {
    checkFits(instance, card, planning.view({ ...planning.facts.now(), instances: there }, modelId))
  } catch (error) {
    if (!(error instanceof SvcError && error.reason === 'info_pending')) throw error
  }
}

/** Number of layers assumed for a model that is not downloaded yet; it allows a fine split by memory. */
const LAYERS = 32

/**
 * Estimates whether a model fits, and on which nodes. If the model is not downloaded, only its size is known,
 * so `fits` ignores the memory for its context and is optimistic. Null if nodes have not reported their
 * memory, or if no plugin provides the engine.
 */
export function memoryFit (
  planning: Planning, ...[format, totalBytes, modelId]: Parameters<MemoryPlanner>
): MemoryFit | null {
  const engine = ENGINES[format]
  const view = planning.view(planning.facts.now(), '')
  const traits = view.engines[engine]
  if (traits === undefined) return null
  const known = planning.known(modelId)
  const card = known?.totalBytes === totalBytes ? known : sketch(engine, traits.backends, totalBytes)
  const request = {
    card, sharding: 'Pipeline', instanceMeta: traits.meta, minNodes: 1, excluded: [], force: false
  } as const
  const now = planWithoutSuggestions(request, view)
  // A missing engine can be installed later, so the estimate ignores it.
  const nodes = view.nodes.map((node) => ({ ...node, lacks: [], onLibrary: [] }))
  const result = planWithoutSuggestions(request, { ...view, nodes })
  if (!result.ok && result.reason === 'info_pending') return null
  return {
    neededBytes: needOf(card, traits, { context: LEAST_CHOSEN }).neededBytes,
    nodes: result.ok
      ? result.plan.ranks.flatMap(({ nodeId, neededBytes, usableBytes, memories }) =>
          (memories ?? [{ memory: null, neededBytes, usableBytes }]).map(({ memory, ...sums }) => ({
            name: planning.nameOf(nodeId) + (memory === null ? '' : memory === 'vram' ? ' (GPU)' : ' (CPU)'),
            neededBytes: sums.neededBytes, usableBytes: sums.usableBytes
          })))
      : [],
    problem: result.ok ? null : result.message,
    engineMissing: !now.ok && now.reason === 'engine_missing' ? traits.builds ?? engine : null
  }
}

const sketch = (engine: string, backends: readonly string[], totalBytes: number): ModelCard => ({
  modelId: 'the model', revision: '', title: '', description: '', tasks: [], family: '', engine,
  backends: [...backends], files: [], totalBytes, nLayers: LAYERS, hiddenSize: 0, heads: 0, kvHeads: 0,
  headSize: 0, contextLength: 0, supportsTensor: false, companions: [], licence: '', languages: [],
  quantization: null, voices: [], defaults: {}, support: {}
})
