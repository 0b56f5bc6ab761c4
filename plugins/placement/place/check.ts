import { kernelError, SvcError } from '../../../kernel/index.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { FactsReader } from '../facts.js'
import { claimsByNode, gib, needOf, usableOf } from '../planner/memory.js'
import type { ClusterView, NodeFacts, PlanRequest } from '../planner/types.js'
import { planBriefly } from '../planner/index.js'
import { refusalError, refuse } from '../errors.js'
import { bodyOf } from '../../runners/service.js'
import type { Entering, Instance, RingInstance } from '../../runners/service.js'
import type { Planning } from './planning.js'
import { cardOf, partOf, ranksOf } from './view.js'
import type { Rank } from './view.js'

/**
 * Throws what is wrong with the form of an instance: `invalid_request` that names the field. Its schema has
 * been applied; what is asked of the cluster is for `checkFits`.
 */
export function checkForm (instance: Instance, card: ModelCard): void {
  const ring = bodyOf(instance)
  const at = `instance.${Object.keys(instance)[0]}`
  if (ring.engine !== card.engine) {
    throw invalid(`${at}.engine`, `must be ${card.engine}, the engine of ${card.modelId}`)
  }
  const { runnerToShard, nodeToRunner } = ring.shardAssignments
  const runners = Object.values(nodeToRunner)
  const assignments = `${at}.shardAssignments`
  if (new Set(runners).size !== runners.length) {
    throw invalid(`${assignments}.nodeToRunner`, 'must name each runner once')
  }
  for (const runnerId of runners) {
    if (!Object.hasOwn(runnerToShard, runnerId)) {
      throw invalid(`${assignments}.runnerToShard`, `has no shard for the runner ${runnerId}`)
    }
  }
  if (Object.keys(runnerToShard).length !== runners.length) {
    throw invalid(`${assignments}.runnerToShard`, 'names a runner that is on no node')
  }
  const ranks = ranksOf(instance)
  checkShards(ranks, ring, card, `${assignments}.runnerToShard`)
  if (!('LlamaRpcInstance' in instance)) return
  if (ranks.length === 1) throw invalid(at, 'must be a RingInstance: it has one node only')
  if (ranks[0]!.tensor) throw invalid(`${assignments}.runnerToShard`, 'must have no TensorShardMetadata')
  const { driverNode } = instance.LlamaRpcInstance
  if (driverNode !== ranks[0]!.nodeId) {
    throw invalid(`${at}.driverNode`, 'must be the node of the shard with deviceRank 0')
  }
}

function checkShards (
  ranks: readonly Rank[], { shardAssignments: { modelId } }: RingInstance, card: ModelCard, path: string
): void {
  const tensor = ranks[0]!.tensor
  let layer = 0
  ranks.forEach(({ runnerId, shard, tensor: own }, place) => {
    const wrong = (field: readonly string[], message: string): SvcError =>
      invalid([path, runnerId, ...field].join('.'), message)
    if (own !== tensor) throw wrong([], 'must be cut as the others are')
    if (tensor && ranks.length === 1) throw wrong([], 'must be a PipelineShardMetadata: it is the only one')
    if (shard.modelCard.modelId !== modelId) throw wrong(['modelCard', 'modelId'], `must be ${modelId}`)
    if (shard.worldSize !== ranks.length) throw wrong(['worldSize'], `must be ${ranks.length}`)
    if (shard.nLayers !== card.nLayers) throw wrong(['nLayers'], `must be ${card.nLayers}`)
    if (shard.deviceRank !== place) throw wrong(['deviceRank'], 'must count from 0 without gaps')
    const start = tensor ? 0 : layer
    if (shard.startLayer !== start) throw wrong(['startLayer'], `must be ${start}`)
    const last = tensor || place === ranks.length - 1
    if (last && shard.endLayer !== card.nLayers) throw wrong(['endLayer'], `must be ${card.nLayers}`)
    if (!last && (shard.endLayer <= start || shard.endLayer > card.nLayers)) {
      throw wrong(['endLayer'], `must be above ${start} and at most ${card.nLayers}`)
    }
    layer = shard.endLayer
  })
}

/** A field that is not valid. */
export function invalid (path: string, message: string): SvcError {
  return kernelError('invalid_request', `${path} ${message}`, { param: path, issues: [{ path, message }] })
}

/** What is to be checked against the cluster. */
export interface Fitting { instance: Instance, card: ModelCard, view: ClusterView }

/**
 * Throws why these nodes cannot run the instance: what the planner says of a placement on exactly them, then
 * what each of them has for the layers it is given. Whatever is not told yet is `info_pending`; a node
 * that is not live is `node_not_found`.
 */
export function checkFits (fitting: Fitting): void {
  const { instance, view } = fitting
  const ranks = ranksOf(instance)
  for (const { nodeId } of ranks) {
    if (view.nodes.some((node) => node.nodeId === nodeId)) continue
    throw kernelError('node_not_found', `No node ${nodeId.slice(0, 128)} is live.`)
  }
  const result = planBriefly(requestOf(fitting, ranks), view)
  if (!result.ok) throw refusalError(result)
  if ('LlamaRpcInstance' in instance) checkStar(ranks, view)
  else checkRing(ranks, view)
  for (const rank of ranks) checkShare(fitting, rank)
}

/** The question whether the model can be placed on these nodes and no other. */
function requestOf ({ instance, card, view }: Fitting, ranks: readonly Rank[]): PlanRequest {
  const chosen = new Set(ranks.map(({ nodeId }) => nodeId))
  return {
    card,
    sharding: ranks[0]!.tensor ? 'Tensor' : 'Pipeline',
    instanceMeta: 'LlamaRpcInstance' in instance ? 'LlamaRpc' : 'Ring',
    minNodes: ranks.length,
    excluded: view.nodes.map(({ nodeId }) => nodeId).filter((nodeId) => !chosen.has(nodeId))
  }
}

function checkRing (ranks: readonly Rank[], view: ClusterView): void {
  if (ranks.length === 1) return
  ranks.forEach(({ nodeId }, place) => {
    checkLinked(nodeId, ranks[(place + 1) % ranks.length]!.nodeId, view, 'are next to each other in the ring')
  })
}

function checkStar ([driver, ...donors]: readonly Rank[], view: ClusterView): void {
  for (const { nodeId } of donors) checkLinked(driver!.nodeId, nodeId, view, 'are the driver and a donor')
}

function checkLinked (one: string, other: string, { nodes, edges }: ClusterView, how: string): void {
  const linked = (a: string, b: string): boolean => edges.some(({ from, to }) => from === a && to === b)
  if (linked(one, other) && linked(other, one)) return
  const [a, b] = [one, other].map((id) => nodes.find((node) => node.nodeId === id)?.name ?? id)
  throw refuse('no_connected_cycle', `${a} and ${b} ${how} and are not connected in both directions.`)
}

function checkShare ({ instance, card, view }: Fitting, { nodeId, shard }: Rank): void {
  const node = view.nodes.find((one) => one.nodeId === nodeId)!
  const traits = view.engines[card.engine]!
  const need = needOf(card, traits.overhead, partOf(shard))
  const backends = traits.backends.filter((name) =>
    card.backends.includes(name) && node.backends?.[card.engine]?.includes(name) === true)
  const told = { ...node, memory: node.memory! }
  const claims = claimsByNode(view)(nodeId)
  const offers = backends.map((backend) => ({ backend, ...usableOf(told, backend, claims) }))
  if (offers.some(({ usableBytes }) => need.neededBytes < usableBytes)) return
  const best = Math.max(0, ...offers.map(({ usableBytes }) => usableBytes))
  throw refuse('insufficient_memory', messageFor(node, shard, need.neededBytes, best), {
    instanceId: bodyOf(instance).instanceId, nodes: [{ nodeId, name: node.name, need, offers }]
  })
}

function messageFor (node: NodeFacts, shard: Rank['shard'], needed: number, usable: number): string {
  return `${node.name} needs ${gib(needed)} for layers ${shard.startLayer} to ${shard.endLayer} ` +
    `and can use ${gib(usable)}; it must be less.`
}

export interface AdmissionParts {
  planning: Pick<Planning, 'known' | 'view'>
  facts: Pick<FactsReader, 'now'>
  /** Whether something waits for a place under that id. */
  waits (id: string): boolean
}

/**
 * The master's own look at what is to be placed: two nodes may have planned for the same memory at once. The
 * check throws why an instance cannot be placed beside those that there are, by what the master knows; what
 * it has not been told yet, the node that planned had.
 */
export function createAdmission ({ planning, facts, waits }: AdmissionParts): (entering: Entering) => void {
  return ({ instance, instances }) => {
    const { placement, shardAssignments: { modelId } } = bodyOf(instance)
    const id = placement?.replaces ?? null
    // What a master decided may arrive when another one has seen to it already.
    const done = instances.some((one) => id !== null && bodyOf(one).placement?.replaces === id)
    if (id !== null && (done || !waits(id))) {
      throw refuse('not_waiting', `Nothing waits for a place under ${id}.`)
    }
    const there = Object.fromEntries(instances.map((one) => [bodyOf(one).instanceId, one]))
    const card = planning.known(modelId) ?? cardOf(ranksOf(instance)[0]!.shard)
    try {
      checkFits({ instance, card, view: planning.view({ ...facts.now(), instances: there }, modelId) })
    } catch (error) {
      if (!(error instanceof SvcError && error.reason === 'info_pending')) throw error
    }
  }
}
