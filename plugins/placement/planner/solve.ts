import { cacheWords, contextOf } from '../../runners/cards/memory-forecast.js'
import { bestArrangement, largestArrangement, memoriesField } from './arrange.js'
import type { ArrangedNode, DeviceShare, Pool } from './arrange.js'
import { joins, layersOn, neighboursIn, survey } from './candidates.js'
import type { CandidateNode, Job, CandidateSet } from './candidates.js'
import { gib } from './memory.js'
import { smallerContexts, fitContextAndSlots } from './slots.js'
import {
  allDrained, allExcluded, indivisible, infoPending, least, noBackend, noCycle, noMemory, cannotSpread,
  refusedByEngine, missingBytes, tensorUnsupported, tooFewLayers
} from './refusals.js'
import type { Unplanned } from './refusals.js'
import type { ClusterView, EngineTraits, Plan, Planned, PlanRank, PlanRequest, Edge } from './types.js'

/** Limit on the search steps of one request, which only large, sparse networks reach. */
const SEARCH_STEPS = 100_000
/** Smallest context in tokens that is chosen for a request that sets none. */
export const LEAST_CHOSEN = 2048

/**
 * Chooses nodes for a model and the part of each, or returns the first reason for a refusal. Pure; the order
 * of nodes and edges does not matter.
 */
export function solve (request: PlanRequest, view: ClusterView): Planned | Unplanned {
  const first = solveOnce(request, view)
  let last = first
  for (const contextLength of chosenContexts(request)) {
    if (last.ok || !MEMORY_REASONS.has(last.reason)) return last
    last = solveOnce({ ...request, contextLength }, view)
  }
  return last.ok || first.ok || first.reason !== 'info_pending' ? last : first
}

const MEMORY_REASONS: ReadonlySet<string> = new Set(['insufficient_memory', 'info_pending'])

const chosenContexts = (request: PlanRequest): number[] =>
  request.contextLength === undefined ? smallerContexts(request, LEAST_CHOSEN) : []

function solveOnce (request: PlanRequest, view: ClusterView): Planned | Unplanned {
  const job = jobOf(request, view)
  if ('reason' in job) return job
  const found = survey(job, view)
  const told = poolOf(found.candidates.filter(({ pending }) => !pending), view)
  const plan = planAmong(job, told)
  if (plan !== null) return { ok: true, plan }
  const pending = found.candidates.filter((candidate) => candidate.pending)
  if (pending.length === 0) return problemAmong(job, view, found, told)
  // Report missing readings only if the best possible readings would make a placement possible.
  const atMost = poolOf(found.candidates, view)
  if (planAmong(job, atMost) !== null) return infoPending(request, pending)
  return problemAmong(job, view, found, atMost)
}

/** Whether a plan exists. Cheaper than `solve`, which also finds the reason for a refusal. */
export function canPlan (request: PlanRequest, view: ClusterView): boolean {
  const contextLength = chosenContexts(request).at(-1) ?? request.contextLength
  const job = jobOf({ ...request, contextLength }, view)
  if ('reason' in job) return false
  const told = survey(job, view).candidates.filter(({ pending }) => !pending)
  return planAmong(job, poolOf(told, view)) !== null
}

/** The job with the engine's traits, or a refusal that applies whatever nodes are chosen. */
function jobOf (asked: PlanRequest, view: ClusterView): Job | Unplanned {
  const { card, minNodes } = asked
  const told = Object.hasOwn(view.engines, card.engine) ? view.engines[card.engine]! : null
  if (told === null) return noBackend(asked, null, null)
  const sharding = told.onlyTensor === true && card.supportsTensor ? 'Tensor' : asked.sharding
  const request = { ...asked, sharding }
  const ranks = card.tasks.includes('rerank')
  // A reranker always has one slot.
  const traits = ranks ? { ...told, slots: undefined } : told
  const why = traits.refuses?.(card) ?? null
  if (why !== null) return refusedByEngine(request, why)
  if (sharding === 'Tensor' && !(card.supportsTensor && traits.tensor)) {
    return tensorUnsupported(request, traits)
  }
  if (sharding === 'Pipeline' && minNodes > 1 && minNodes > card.nLayers) return tooFewLayers(request)
  const slots = told.slots === undefined ? undefined : ranks ? 1 : request.slots ?? 1
  return { request, traits, layers: Math.max(1, card.nLayers), slots }
}

function poolOf (candidates: readonly CandidateNode[], view: ClusterView): Pool {
  const neighbours = neighboursIn(candidates, view.edges)
  return { candidates, neighbours, edges: view.edges, budget: { steps: SEARCH_STEPS } }
}

function planAmong (job: Job, pool: Pool): Plan | null {
  for (const size of allowedSizes(job, pool.candidates.length)) {
    const nodes = bestArrangement(job, pool, size)
    if (nodes === null) continue
    const more = fitContextAndSlots(job, nodes)
    const room = more === job ? null : bestArrangement(more, pool, size)
    return room === null ? planOf(job, nodes, pool.edges) : planOf(more, room, pool.edges)
  }
  return null
}

function spreads ({ instanceMeta }: PlanRequest, { multiNode, meta }: EngineTraits): boolean {
  return multiNode && meta === instanceMeta
}

function allowedSizes ({ request, traits, layers }: Job, candidates: number): number[] {
  const bySplit = request.sharding === 'Pipeline' ? layers : candidates
  return sizesUpTo(request, traits, Math.min(candidates, bySplit, spreads(request, traits) ? candidates : 1))
}

/** Allowed numbers of nodes for splitting the model, up to `most`. */
function sizesUpTo (request: PlanRequest, traits: EngineTraits, most: number): number[] {
  const { sharding, card: { heads, kvHeads, hiddenSize } } = request
  const sizes: number[] = []
  for (let size = least(request); size <= most; size++) {
    // Tensor sharding needs at least two nodes.
    const even = size === 1 || sharding === 'Pipeline' || traits.unevenTensor === true ||
      [heads, kvHeads, hiddenSize].every((n) => n > 0 && n % size === 0)
    if (even) sizes.push(size)
  }
  return sizes
}

/** Finds the reason for the refusal. Returns a plan only if the earlier search had run out of steps. */
function problemAmong (
  job: Job, view: ClusterView, found: CandidateSet, { candidates, ...pool }: Pool
): Planned | Unplanned {
  const { request, traits } = job
  if (candidates.length === 0) {
    if (found.drained.length > 0) return allDrained(request, found.drained)
    return found.excluded.length > 0
      ? allExcluded(request, found.excluded)
      : noBackend(request, traits, found)
  }
  const size = least(request)
  const refusing = candidates.filter((candidate) => !joins(job, candidate, size))
  const tooFew = candidates.length >= size && candidates.length - refusing.length < size
  if (size > 1 && (!spreads(request, traits) || tooFew)) return cannotSpread(job, tooFew ? refusing : [])
  if (sizesUpTo(request, traits, Math.max(size, candidates.length)).length === 0) {
    return indivisible(request, candidates.length)
  }
  // The arrangement with the smallest shortage; of several equal ones, the one on the fewest nodes.
  const nearest = allowedSizes(job, candidates.length)
    .map((size) => largestArrangement(job, { candidates, ...pool }, size))
    .reduce((best, nodes) =>
      nodes === null || (best !== null && shortBytes(best) <= shortBytes(nodes)) ? best : nodes, null)
  if (nearest === null) return noCycle(request, view, candidates, pool.budget.steps < 0)
  if (shortBytes(nearest) === 0) return { ok: true, plan: planOf(job, nearest, pool.edges) }
  return noMemory({ job, nearest, candidates })
}

function shortBytes (members: readonly ArrangedNode[]): number {
  return members.reduce((sum, member) => sum + missingBytes(member), 0)
}

function planOf (job: Job, members: readonly ArrangedNode[], edges: ClusterView['edges']): Plan {
  const { request } = job
  const alone = members.length === 1
  const stagedBytes = members.reduce((sum, { candidate }) => sum + candidate.stagedBytes, 0)
  return {
    sharding: alone ? 'Pipeline' : request.sharding,
    instanceMeta: alone ? 'Ring' : request.instanceMeta,
    contextLength: contextOf(request.card, request.contextLength),
    ...job.slots === undefined ? {} : { slots: job.slots },
    ranks: members.map(({ candidate, option, startLayer, endLayer, need, held }) => ({
      nodeId: candidate.node.nodeId, backend: option.backend, startLayer, endLayer,
      ...gpuLayersOf(job, candidate, held), ...memoriesField(held), ...need,
      usableBytes: option.usable.usableBytes,
      freeAfterBytes: option.usable.usableBytes - need.neededBytes
    })),
    stagedBytes,
    why: [whyOf(job, members, stagedBytes), ...slowLinks(request, members, edges)].join(' ')
  }
}

/** Layers on each GPU if the engine can use several devices; empty if the GPUs have no free memory. */
function gpuLayersOf (
  { traits }: Job, { node }: CandidateNode, held: readonly DeviceShare[]
): Pick<PlanRank, 'gpuLayers'> {
  const onGpus = held.filter(({ device }) => device !== 'ram')
  const said = held.length > 1 || (onGpus.length === 0 && traits.manyDevices === true && node.gpus.length > 0)
  return said ? { gpuLayers: onGpus.map(({ layers }) => layers) } : {}
}

function whyOf (job: Job, members: readonly ArrangedNode[], stagedBytes: number): string {
  const { request } = job
  const size = members.length
  const nodes = size === 1 ? '1 node' : `${size} nodes`
  const count = size > least(request) ? 'the fewest that hold it' : 'as few as allowed'
  const backends = [...new Set(members.map(({ option }) => option.backend))].join(' and ')
  const forced = request.force ? '; memory was not checked' : ''
  return [
    `${nodes}, ${count}, on ${backends}`, ...slotsOf(job, members),
    ...members.flatMap((member) => onCpu(job, member, size)),
    `${gib(stagedBytes)} of the model already there${forced}.`
  ].join('; ')
}

function slotsOf (
  { request: { card, contextLength }, slots }: Job, members: readonly ArrangedNode[]
): string[] {
  if (slots === undefined) return []
  const context = contextOf(card, contextLength)
  const cache = members.reduce((sum, { need }) => sum + need.cacheBytes, 0)
  return [`${cacheWords(card, context, slots)} = ${gib(cache)} of KV cache`]
}

/** Explains why the CPU holds layers although the GPUs could run the model. */
function onCpu (job: Job, { candidate, held }: ArrangedNode, size: number): string[] {
  const gpus = candidate.options.find(({ usable }) => usable.memory === 'vram')?.devices
  const count = (list: readonly DeviceShare[]): number => list.reduce((sum, { layers }) => sum + layers, 0)
  const [all, onGpu] = [count(held), count(held.filter(({ usable }) => usable.memory === 'vram'))]
  if (gpus === undefined || onGpu === all) return []
  const where = size === 1 ? '' : ` of ${candidate.node.name}`
  const fits = size === 1 ? smallerContexts(job.request).find((contextLength) =>
    layersOn({ ...job, request: { ...job.request, contextLength } }, gpus, job.layers) >= all) : undefined
  const rather = fits === undefined ? '' : ` (all with a context of ${fits})`
  return [`${onGpu} of ${all} layers on the GPU${where}${rather}, the others on the CPU: slower`]
}

/** A link between nodes that share a model is slow below this rate (half of 1 Gbit/s) or above this delay. */
const SLOW_BYTES_PER_SECOND = 60e6
const SLOW_RTT_MS = 5

/**
 * A sentence for each slow link of an arrangement, with the measured values and, if a driver sends weights
 * over the link, the time that the transfer takes. A link without measurements does not count as slow.
 */
function slowLinks (
  { instanceMeta }: PlanRequest, members: readonly ArrangedNode[], edges: readonly Edge[]
): string[] {
  const star = instanceMeta === 'LlamaRpc'
  const ring = members.length > 2 ? members : members.slice(0, 1)
  const pairs = star
    ? members.slice(1).map((donor) => [members[0]!, donor] as const)
    : ring.map((member, i) => [member, members[(i + 1) % members.length]!] as const)
  return pairs.filter(([a, b]) => a !== b).flatMap(([a, b]) => {
    const ids = [a, b].map(({ candidate }) => candidate.node.nodeId)
    const both = edges.filter(({ from, to }) => from !== to && ids.includes(from) && ids.includes(to))
    const told = (of: (edge: Edge) => number | null | undefined): number[] =>
      both.map(of).filter((value) => typeof value === 'number')
    // Both ends measure; the worse value counts.
    const rate = Math.min(...told(({ bytesPerSecond }) => bytesPerSecond))
    const rtt = Math.max(...told(({ rttMs }) => rttMs))
    if (rate >= SLOW_BYTES_PER_SECOND && rtt <= SLOW_RTT_MS) return []
    const [one, other] = [a.candidate.node.name, b.candidate.node.name]
    const measured = [
      ...rate < SLOW_BYTES_PER_SECOND ? [`${(rate / 1e6).toFixed(1)} MB/s`] : [],
      ...rtt > SLOW_RTT_MS ? [`a round trip of ${Math.round(rtt)} ms for each token`] : []
    ]
    const minutes = star ? b.need.shareBytes / rate / 60 : 0
    const load = minutes >= 1 ? `; sending ${other} its part takes ${Math.ceil(minutes)} min` : ''
    return [`The link between ${one} and ${other} is slow: ${measured.join(', ')}${load}.`]
  })
}
