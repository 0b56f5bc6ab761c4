import { arrange, arrangeAnyway } from './arrange.js'
import type { ArrangedNode, Pool } from './arrange.js'
import { joins, neighboursIn, survey } from './candidates.js'
import type { CandidateNode, Job, Survey } from './candidates.js'
import { gib } from './memory.js'
import type { ClusterView, EngineTraits, Meter, Plan, PlanRequest } from './types.js'

/** Why there is no plan, with what a message needs. */
export type Problem =
  | { reason: 'tensor_unsupported', traits: EngineTraits }
  | { reason: 'too_few_layers' }
  | { reason: 'no_backend', traits: EngineTraits | null, survey: Survey | null }
  | { reason: 'exclusions_removed_all', survey: Survey }
  | { reason: 'info_pending', pending: CandidateNode[] }
  | { reason: 'spread_unsupported', job: Job, refusing: readonly CandidateNode[] }
  | { reason: 'tensor_indivisible', candidates: number }
  | { reason: 'no_connected_cycle', job: Job, candidates: readonly CandidateNode[], cut: boolean }
  | { reason: 'insufficient_memory', job: Job, nearest: ArrangedNode[], candidates: readonly CandidateNode[] }

export type Solved = { ok: true, plan: Plan } | { ok: false, problem: Problem }

/** Links one request may look at; only rings in large, thin networks come near it. */
const SOLVE_STEPS = 2_000_000

/** Finds the plan or the first reason why there is none. */
export function solve (request: PlanRequest, view: ClusterView, meter: Meter): Solved {
  const job = jobOf(request, view)
  if ('reason' in job) return { ok: false, problem: job }
  const found = survey(job, view)
  const told = poolOf(found.candidates.filter(({ pending }) => !pending), view, meter)
  const plan = planAmong(job, told)
  if (plan !== null) return { ok: true, plan }
  const pending = found.candidates.filter((candidate) => candidate.pending)
  if (pending.length === 0) return problemAmong(job, found, told)
  // Only nodes that could change the answer are worth waiting for: the most they could be, would it do?
  const atMost = poolOf(found.candidates, view, meter)
  if (planAmong(job, atMost) !== null) return { ok: false, problem: { reason: 'info_pending', pending } }
  return problemAmong(job, found, atMost)
}

/** Whether there is a plan; cheaper than the reason why not. */
export function canPlan (request: PlanRequest, view: ClusterView, meter: Meter): boolean {
  const job = jobOf(request, view)
  if ('reason' in job) return false
  const told = survey(job, view).candidates.filter(({ pending }) => !pending)
  return planAmong(job, poolOf(told, view, meter)) !== null
}

/** What is asked with the engine's traits at hand, or what is wrong whatever the nodes are. */
function jobOf (request: PlanRequest, view: ClusterView): Job | Problem {
  const { card, sharding, minNodes } = request
  const traits = Object.hasOwn(view.engines, card.engine) ? view.engines[card.engine]! : null
  if (traits === null) return { reason: 'no_backend', traits, survey: null }
  if (sharding === 'Tensor' && !(card.supportsTensor && traits.tensor)) {
    return { reason: 'tensor_unsupported', traits }
  }
  if (sharding === 'Pipeline' && minNodes > 1 && minNodes > card.nLayers) return { reason: 'too_few_layers' }
  return { request, traits, layers: Math.max(1, card.nLayers) }
}

function poolOf (candidates: readonly CandidateNode[], view: ClusterView, meter: Meter): Pool {
  const neighbours = neighboursIn(candidates, view.edges, meter)
  return { candidates, neighbours, budget: { meter, end: meter.steps + SOLVE_STEPS, cut: false } }
}

function planAmong (job: Job, pool: Pool): Plan | null {
  for (const size of allowedSizes(job, pool.candidates.length)) {
    const nodes = arrange(job, pool, size)
    if (nodes !== null) return planOf(job, nodes)
  }
  return null
}

function problemAmong (job: Job, found: Survey, pool: Pool): Solved {
  const sizes = allowedSizes(job, pool.candidates.length)
  // The arrangement that misses least memory, of these the one on the fewest nodes.
  const nearest = sizes.map((size) => arrangeAnyway(job, pool, size)).reduce((best, nodes) =>
    nodes === null || (best !== null && shortBytes(best) <= shortBytes(nodes)) ? best : nodes, null)
  // Possible only where the search for a plan ran out of steps.
  if (nearest !== null && shortBytes(nearest) === 0) return { ok: true, plan: planOf(job, nearest) }
  return { ok: false, problem: problemOf(job, found, pool, sizes.length === 0, nearest) }
}

/** Whether the engine spreads a model over nodes in the way asked for. */
function spreads ({ instanceMeta }: PlanRequest, { multiNode, meta = 'Ring' }: EngineTraits): boolean {
  return multiNode && meta === instanceMeta
}

/** Numbers of nodes worth trying, the fewest first. */
function allowedSizes ({ request, traits, layers }: Job, candidates: number): number[] {
  const bySplit = request.sharding === 'Pipeline' ? layers : candidates
  const most = Math.min(candidates, bySplit, spreads(request, traits) ? candidates : 1)
  const sizes: number[] = []
  for (let size = least(request); size <= most; size++) {
    if (request.sharding === 'Pipeline' || divides(request, size)) sizes.push(size)
  }
  return sizes
}

/** The fewest nodes the request allows. */
export function least ({ minNodes }: PlanRequest): number {
  return Math.max(1, Math.ceil(minNodes))
}

/** Whether heads and widths can be dealt out evenly. One node is not tensor sharding at all. */
function divides ({ card: { heads, kvHeads, hiddenSize } }: PlanRequest, size: number): boolean {
  return size === 1 || [heads, kvHeads, hiddenSize].every((n) => n > 0 && n % size === 0)
}

function problemOf (
  job: Job, found: Survey, { candidates, budget: { cut } }: Pool, noSize: boolean,
  nearest: ArrangedNode[] | null
): Problem {
  const { request, traits } = job
  if (candidates.length === 0) {
    return found.excluded.length > 0
      ? { reason: 'exclusions_removed_all', survey: found }
      : { reason: 'no_backend', traits, survey: found }
  }
  const size = least(request)
  const refusing = candidates.filter((candidate) => !joins(job, candidate, size))
  const tooFew = candidates.length >= size && candidates.length - refusing.length < size
  if (size > 1 && (!spreads(request, traits) || tooFew)) {
    return { reason: 'spread_unsupported', job, refusing: tooFew ? refusing : [] }
  }
  if (noSize && indivisible(job, candidates.length)) {
    return { reason: 'tensor_indivisible', candidates: candidates.length }
  }
  return nearest === null
    ? { reason: 'no_connected_cycle', job, candidates, cut }
    : { reason: 'insufficient_memory', job, nearest, candidates }
}

function indivisible ({ request }: Job, candidates: number): boolean {
  if (request.sharding === 'Pipeline') return false
  for (let size = least(request); size <= Math.max(least(request), candidates); size++) {
    if (divides(request, size)) return false
  }
  return true
}

/** What is missing on all nodes of an arrangement together. */
function shortBytes (members: readonly ArrangedNode[]): number {
  return members.reduce((sum, member) => sum + shortOf(member), 0)
}

/** Bytes by which a member misses its part: at least 1 when it does, since equal is not enough. */
export function shortOf ({ need, option }: ArrangedNode): number {
  return Math.max(0, need.neededBytes - option.usable.usableBytes + 1)
}

function planOf (job: Job, members: readonly ArrangedNode[]): Plan {
  const { request } = job
  const alone = members.length === 1
  const stagedBytes = members.reduce((sum, { candidate }) => sum + candidate.stagedBytes, 0)
  return {
    sharding: alone ? 'Pipeline' : request.sharding,
    instanceMeta: alone ? 'Ring' : request.instanceMeta,
    ranks: members.map(({ candidate, option, startLayer, endLayer, need }) => ({
      nodeId: candidate.node.nodeId,
      backend: option.backend,
      startLayer,
      endLayer,
      shareBytes: need.shareBytes,
      neededBytes: need.neededBytes,
      usableBytes: option.usable.usableBytes,
      freeAfterBytes: option.usable.usableBytes - need.neededBytes
    })),
    stagedBytes,
    why: whyOf(request, members, stagedBytes)
  }
}

function whyOf (request: PlanRequest, members: readonly ArrangedNode[], stagedBytes: number): string {
  const size = members.length
  const nodes = size === 1 ? '1 node' : `${size} nodes`
  const count = size > least(request) ? 'the fewest that hold it' : 'as few as allowed'
  const backends = [...new Set(members.map(({ option }) => option.backend))].join(' and ')
  const forced = request.force === true ? '; memory was not checked' : ''
  return `${nodes}, ${count}, on ${backends}; ${gib(stagedBytes)} of the model already there${forced}.`
}
