import { arrange, arrangeAnyway } from './arrange.js'
import type { Field, Member } from './arrange.js'
import { survey } from './candidates.js'
import type { Candidate, Job, Survey } from './candidates.js'
import { linksBetween } from './links.js'
import { gib } from './memory.js'
import type { Budget } from './search.js'
import type { ClusterView, EngineTraits, Meter, Plan, PlanRequest } from './types.js'

/** Why there is no plan, with what a message needs. */
export type Problem =
  | { reason: 'tensor_unsupported', traits: EngineTraits }
  | { reason: 'too_few_layers' }
  | { reason: 'no_backend', traits: EngineTraits | null, survey: Survey | null }
  | { reason: 'exclusions_removed_all', survey: Survey }
  | { reason: 'info_pending', pending: Candidate[] }
  | { reason: 'spread_unsupported', traits: EngineTraits }
  | { reason: 'tensor_indivisible', candidates: number }
  | { reason: 'no_connected_cycle', job: Job, candidates: readonly Candidate[], cut: boolean }
  | { reason: 'insufficient_memory', job: Job, nearest: Member[], candidates: readonly Candidate[] }

export type Solved = { ok: true, plan: Plan } | { ok: false, problem: Problem }

/** Steps of search one request may take; only rings in large, thin networks come near it. */
const SOLVE_STEPS = 200_000

/** Finds the plan or the first reason why there is none. */
export function solve (request: PlanRequest, view: ClusterView, meter: Meter): Solved {
  const scene = sceneOf(request, view)
  if ('reason' in scene) return { ok: false, problem: scene }
  const { job, found } = scene
  const told = trialOf(scene, view, meter, ({ pending }) => !pending)
  const plan = planAmong(job, told)
  if (plan !== null) return { ok: true, plan }
  const pending = found.candidates.filter((candidate) => candidate.pending)
  if (pending.length === 0) return problemAmong(scene, told)
  // Only nodes that could change the answer are worth waiting for: the most they could be, would it do?
  const atMost = trialOf(scene, view, meter, () => true)
  if (planAmong(job, atMost) !== null) return { ok: false, problem: { reason: 'info_pending', pending } }
  return problemAmong(scene, atMost)
}

/** Whether there is a plan; cheaper than the reason why not. */
export function canPlan (request: PlanRequest, view: ClusterView, meter: Meter): boolean {
  const scene = sceneOf(request, view)
  if ('reason' in scene) return false
  return planAmong(scene.job, trialOf(scene, view, meter, ({ pending }) => !pending)) !== null
}

interface Scene { job: Job, found: Survey }

function sceneOf (request: PlanRequest, view: ClusterView): Scene | Problem {
  const { card } = request
  const traits = Object.hasOwn(view.engines, card.engine) ? view.engines[card.engine]! : null
  if (traits === null) return { reason: 'no_backend', traits, survey: null }
  const early = withoutNodes(request, traits)
  if (early !== null) return early
  const job: Job = { request, traits, layers: Math.max(1, card.nLayers) }
  return { job, found: survey(job, view) }
}

/** The candidates that count, the numbers of them to try, and the work it may take. */
interface Trial { field: Field, sizes: number[], budget: Budget }

function trialOf (
  { job, found }: Scene, view: ClusterView, meter: Meter, counts: (candidate: Candidate) => boolean
): Trial {
  const candidates = found.candidates.filter(counts)
  return {
    field: { candidates, linked: lazyLinks(candidates, view) },
    sizes: allowedSizes(job, candidates.length),
    budget: { left: SOLVE_STEPS, cut: false, meter }
  }
}

/** What is wrong whatever the nodes are. */
function withoutNodes ({ card, sharding, minNodes }: PlanRequest, traits: EngineTraits): Problem | null {
  if (sharding === 'Tensor') {
    return card.supportsTensor && traits.tensor ? null : { reason: 'tensor_unsupported', traits }
  }
  return minNodes > 1 && minNodes > card.nLayers ? { reason: 'too_few_layers' } : null
}

function planAmong (job: Job, { field, sizes, budget }: Trial): Plan | null {
  for (const size of sizes) {
    const members = arrange(job, field, size, budget)
    if (members !== null) return planOf(job, members)
  }
  return null
}

function problemAmong ({ job, found }: Scene, { field, sizes, budget }: Trial): Solved {
  const nearest = nearestOf(job, field, sizes, budget)
  // Possible only where the search for a plan ran out of steps.
  if (nearest !== null && shortBytes(nearest) === 0) return { ok: true, plan: planOf(job, nearest) }
  return { ok: false, problem: problemOf(job, found, field.candidates, sizes, nearest, budget.cut) }
}

/** The arrangement that misses least memory, of these the one on the fewest nodes. */
function nearestOf (job: Job, field: Field, sizes: readonly number[], budget: Budget): Member[] | null {
  return sizes
    .map((size) => arrangeAnyway(job, field, size, budget))
    .filter((members) => members !== null)
    .reduce<Member[] | null>((best, members) =>
      best !== null && shortBytes(best) <= shortBytes(members) ? best : members, null)
}

/** Most placements take one node, and never ask for links. */
function lazyLinks (candidates: readonly Candidate[], view: ClusterView): Field['linked'] {
  let linked: Field['linked'] | undefined
  return (a, b) => (linked ??= linksBetween(candidates, view.edges))(a, b)
}

/** Whether the engine spreads a model over nodes in the way asked for. */
export function spreads ({ instanceMeta }: PlanRequest, { multiNode, meta = 'Ring' }: EngineTraits): boolean {
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
  job: Job, found: Survey, candidates: readonly Candidate[], sizes: readonly number[],
  nearest: Member[] | null, cut: boolean
): Problem {
  if (candidates.length === 0) {
    return found.excluded.length > 0
      ? { reason: 'exclusions_removed_all', survey: found }
      : { reason: 'no_backend', traits: job.traits, survey: found }
  }
  if (least(job.request) > 1 && !spreads(job.request, job.traits)) {
    return { reason: 'spread_unsupported', traits: job.traits }
  }
  if (sizes.length === 0 && indivisible(job, candidates.length)) {
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
function shortBytes (members: readonly Member[]): number {
  return members.reduce((sum, member) => sum + shortOf(member), 0)
}

/** Bytes by which a member misses its part: at least 1 when it does, since equal is not enough. */
export function shortOf ({ need, option }: Member): number {
  return Math.max(0, need.neededBytes - option.usable.usableBytes + 1)
}

function planOf (job: Job, members: readonly Member[]): Plan {
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

function whyOf (request: PlanRequest, members: readonly Member[], stagedBytes: number): string {
  const size = members.length
  const nodes = size === 1 ? '1 node' : `${size} nodes`
  const count = size > least(request) ? 'the fewest that hold it' : 'as few as allowed'
  const backends = [...new Set(members.map(({ option }) => option.backend))].join(' and ')
  const forced = request.force === true ? '; memory was not checked' : ''
  return `${nodes}, ${count}, on ${backends}; ${gib(stagedBytes)} of the model already there${forced}.`
}
