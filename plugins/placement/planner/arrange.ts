import { compareText, jobNeed } from './candidates.js'
import type { Candidate, Job, Option } from './candidates.js'
import type { Linked } from './links.js'
import type { Need } from './memory.js'
import { findGroup } from './search.js'
import type { Budget } from './search.js'
import { splitLayers } from './shares.js'

/** A node in an arrangement: what it runs on and what it must hold. */
export interface Member {
  candidate: Candidate
  option: Option
  startLayer: number
  endLayer: number
  need: Need
}

/** The nodes that may be chosen from. */
export interface Field { candidates: readonly Candidate[], linked: Linked }

interface Pick { at: number, candidate: Candidate, option: Option, layers: number }

/** Whether the job over so many nodes is cut across every layer; on one node it never is. */
function isTensor (job: Job, size: number): boolean {
  return job.request.sharding === 'Tensor' && size > 1
}

/**
 * The best arrangement on exactly `size` nodes in which everything fits, or null. The slowest backend in use
 * is as good as can be; then each node takes the best backend with which the whole still fits.
 */
export function arrange (job: Job, field: Field, size: number, budget: Budget): Member[] | null {
  const orders = new Set(field.candidates.flatMap(({ options }) => options.map(({ order }) => order)))
  for (const worst of [...orders].sort((a, b) => a - b)) {
    const picks = field.candidates
      .map((candidate, at) => roomiest(job, candidate, at, size, worst))
      .filter((pick): pick is Pick => pick !== null && pick.layers > 0)
      .sort((a, b) => a.option.order - b.option.order || byPreference(a, b))
    budget.meter.steps += field.candidates.length
    const chosen = choose(job, field, picks, size, job.layers, budget)
    if (chosen !== null) return members(job, withBetterBackends(job, chosen))
  }
  return null
}

/**
 * The arrangement on `size` nodes with the most memory, whether or not everything fits; null where no such
 * group is connected.
 */
export function arrangeAnyway (job: Job, field: Field, size: number, budget: Budget): Member[] | null {
  const picks = field.candidates
    .map((candidate, at) => ({ at, candidate, option: mostUsable(candidate), layers: job.layers }))
    .sort((a, b) => b.option.usable.usableBytes - a.option.usable.usableBytes || byPreference(a, b))
  budget.meter.steps += field.candidates.length
  const chosen = choose(job, field, picks, size, 0, budget)
  return chosen === null ? null : members(job, chosen)
}

function mostUsable ({ options }: Candidate): Option {
  return options.reduce((best, option) =>
    option.usable.usableBytes > best.usable.usableBytes ? option : best)
}

/** The way to run on the candidate that holds most, of those as good as the worst allowed. */
function roomiest (job: Job, candidate: Candidate, at: number, size: number, worst: number): Pick | null {
  let best: Pick | null = null
  for (const option of candidate.options) {
    const layers = capacity(job, option, size)
    if (option.order > worst || (best !== null && layers <= best.layers)) continue
    best = { at, candidate, option, layers }
  }
  return best
}

/** Layers the option can hold. A tensor rank holds a part of all layers, or it holds none. */
function capacity (job: Job, option: Option, size: number): number {
  if (!isTensor(job, size) || job.request.force === true) return option.layers
  const { neededBytes } = jobNeed(job, { of: 1, parts: size })
  return neededBytes < option.usable.usableBytes ? job.layers : 0
}

function byPreference (a: Pick, b: Pick): number {
  return b.candidate.stagedBytes - a.candidate.stagedBytes ||
    b.option.usable.usableBytes - a.option.usable.usableBytes ||
    compareText(a.candidate.node.nodeId, b.candidate.node.nodeId)
}

function choose (
  job: Job, { linked }: Field, picks: readonly Pick[], size: number, layers: number, budget: Budget
): Pick[] | null {
  const shape = job.request.instanceMeta === 'LlamaRpc' ? 'star' : 'ring'
  const seats = picks.map(({ at, layers }) => ({ candidate: at, layers }))
  return findGroup(seats, linked, { shape, size, layers }, budget)?.map((i) => picks[i]!) ?? null
}

function withBetterBackends (job: Job, picks: readonly Pick[]): Pick[] {
  let held = picks.reduce((sum, { layers }) => sum + layers, 0)
  return picks.map((pick) => {
    for (const option of pick.candidate.options) {
      if (option === pick.option) return pick
      const layers = capacity(job, option, picks.length)
      if (layers < 1 || held - pick.layers + layers < job.layers) continue
      held += layers - pick.layers
      return { ...pick, option, layers }
    }
    return pick
  })
}

function members (job: Job, picks: readonly Pick[]): Member[] {
  const size = picks.length
  if (isTensor(job, size)) {
    const need = jobNeed(job, { of: 1, parts: size })
    const endLayer = job.request.card.nLayers
    return picks.map(({ candidate, option }) => ({ candidate, option, startLayer: 0, endLayer, need }))
  }
  const ranks = picks.map(({ option, layers }) => ({ weight: option.usable.usableBytes, capacity: layers }))
  const counts = splitLayers(job.layers, ranks)
  let startLayer = 0
  return picks.map(({ candidate, option }, i) => {
    const start = startLayer
    startLayer += counts[i]!
    // A card without layers is one part that has no layers to name.
    const endLayer = Math.min(startLayer, job.request.card.nLayers)
    const need = jobNeed(job, { of: counts[i]!, parts: job.layers })
    return { candidate, option, startLayer: start, endLayer, need }
  })
}
