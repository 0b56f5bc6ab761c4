import { addNeeds } from '../../runners/cards/memory-forecast.js'
import type { Need } from '../../runners/cards/memory-forecast.js'
import { compareText, jobNeed, joins, layersOn, layersThatFit } from './candidates.js'
import type { BackendOption, CandidateNode, DeviceOption, Job, Neighbours } from './candidates.js'
import { findGroup } from './search.js'
import type { Budget } from './search.js'
import type { Edge, MemoryPart } from './types.js'

export interface ArrangedNode {
  candidate: CandidateNode
  option: BackendOption
  startLayer: number
  endLayer: number
  need: Need
  held: readonly DeviceShare[]
}

/** One device's share of a rank: layers if the sharding is Pipeline, proportions if it is Tensor. */
export interface DeviceShare extends DeviceOption { layers: number, need: Need }

/** The shares of GPU memory and of RAM; empty unless both are used. */
export function memoriesOf (held: readonly DeviceShare[]): MemoryPart[] {
  const parts = (['vram', 'ram'] as const).flatMap((memory) => {
    const used = held.filter(({ usable, layers }) => usable.memory === memory && layers > 0)
    const sum = (of: (one: DeviceShare) => number): number => used.reduce((all, one) => all + of(one), 0)
    return used.length === 0 ? [] : [{
      memory, layers: sum(({ layers }) => layers), shareBytes: sum(({ need }) => need.shareBytes),
      neededBytes: sum(({ need }) => need.neededBytes),
      usableBytes: sum(({ usable }) => usable.usableBytes)
    }]
  })
  return parts.length === 2 ? parts : []
}

export function memoriesField (held: readonly DeviceShare[]): { memories?: MemoryPart[] } {
  const memories = memoriesOf(held)
  return memories.length === 0 ? {} : { memories }
}

export interface Pool {
  candidates: readonly CandidateNode[]
  neighbours: Neighbours
  edges: readonly Edge[]
  budget: Budget
}

interface Choice { candidate: CandidateNode, option: BackendOption, layers: number }

/** True if every layer is split across the nodes, which needs at least two nodes. */
export function isTensor (job: Job, size: number): boolean {
  return job.request.sharding === 'Tensor' && size > 1
}

/**
 * The best arrangement on exactly `size` nodes, or null. Makes the slowest backend in use as fast as
 * possible, then gives each node the best backend that still fits.
 */
export function bestArrangement (job: Job, pool: Pool, size: number): ArrangedNode[] | null {
  const candidates = pool.candidates.filter((candidate) => joins(job, candidate, size))
  const orders = new Set(candidates.flatMap(({ options }) => options.map(({ order }) => order)))
  for (const worst of [...orders].sort((a, b) => a - b)) {
    const choices = candidates.flatMap((candidate) => roomiest(job, candidate, size, worst))
      .sort((a, b) => a.option.order - b.option.order || byPreference(a, b))
    const chosen = choose(job, pool, choices, size, job.layers)
    if (chosen !== null) return arranged(job, withBetterBackends(job, chosen))
  }
  return null
}

/**
 * The arrangement on `size` nodes with the most memory, even if the model does not fit; null if there are not
 * `size` nodes with the necessary links.
 */
export function largestArrangement (job: Job, pool: Pool, size: number): ArrangedNode[] | null {
  const choices = pool.candidates.filter((candidate) => joins(job, candidate, size))
    .map((candidate): Choice => ({
      candidate,
      layers: job.layers,
      // `reduce` never gets an empty list: each candidate has an option with only the CPU or only GPUs.
      option: candidate.options.filter((option) => !helpsTensor(job, option, size)).reduce((best, option) =>
        option.usable.usableBytes > best.usable.usableBytes ? option : best)
    }))
    .sort((a, b) => b.option.usable.usableBytes - a.option.usable.usableBytes || byPreference(a, b))
  const chosen = choose(job, pool, choices, size, 0)
  return chosen === null ? null : arranged(job, chosen)
}

/** The option that holds the most layers and is not slower than `worst`; empty if no option holds a layer. */
function roomiest (job: Job, candidate: CandidateNode, size: number, worst: number): Choice[] {
  let best: Choice | null = null
  for (const option of candidate.options) {
    const layers = capacity(job, option, size)
    if (option.order <= worst && layers > (best?.layers ?? 0)) best = { candidate, option, layers }
  }
  return best === null ? [] : [best]
}

/** Number of layers that fit on a node; a tensor rank takes its part of all layers or none. */
function capacity (job: Job, option: BackendOption, size: number): number {
  if (!isTensor(job, size) || job.request.force) return option.layers
  if (helpsTensor(job, option, size)) return 0
  return layersOn(job, option.devices, job.layers * size) < job.layers ? 0 : job.layers
}

/** True if the CPU would share a tensor rank with GPUs. This is not allowed, because the CPU is slower. */
function helpsTensor (job: Job, { devices }: BackendOption, size: number): boolean {
  return isTensor(job, size) && devices.length > 1 && devices.at(-1)!.device === 'ram'
}

function byPreference (a: Choice, b: Choice): number {
  return b.candidate.stagedBytes - a.candidate.stagedBytes ||
    b.option.usable.usableBytes - a.option.usable.usableBytes ||
    compareText(a.candidate.node.nodeId, b.candidate.node.nodeId)
}

function choose (
  job: Job, { neighbours, budget }: Pool, choices: readonly Choice[], size: number, layers: number
): Choice[] | null {
  const topology = job.request.instanceMeta === 'LlamaRpc' ? 'star' : 'ring'
  return findGroup(choices, neighbours, { topology, size, layers }, budget)
}

function withBetterBackends (job: Job, choices: readonly Choice[]): Choice[] {
  let held = choices.reduce((sum, { layers }) => sum + layers, 0)
  return choices.map((choice) => {
    for (const option of choice.candidate.options) {
      if (option === choice.option) return choice
      const layers = capacity(job, option, choices.length)
      if (layers < 1 || held - choice.layers + layers < job.layers) continue
      held += layers - choice.layers
      return { ...choice, option, layers }
    }
    return choice
  })
}

function arranged (job: Job, choices: readonly Choice[]): ArrangedNode[] {
  const size = choices.length
  const { nLayers } = job.request.card
  if (isTensor(job, size)) {
    return choices.map(({ candidate, option }) => {
      const held = dealt(job, option, job.layers, job.layers * size)
      return { candidate, option, startLayer: 0, endLayer: nLayers, need: needOfAll(held), held }
    })
  }
  const counts = splitLayers(job.layers, choices.map(({ option, layers }) =>
    ({ weight: option.usable.usableBytes, capacity: layers })))
  let endLayer = 0
  return choices.map(({ candidate, option }, i) => {
    const startLayer = endLayer
    // If the card says 0 layers, the model is planned as a single part.
    endLayer = Math.min(startLayer + counts[i]!, nLayers)
    const held = dealt(job, option, counts[i]!, job.layers)
    return { candidate, option, startLayer, endLayer, need: needOfAll(held), held }
  })
}

function needOfAll (held: readonly DeviceShare[]): Need {
  const used = held.length > 1 ? held.filter(({ layers }) => layers > 0) : held
  return addNeeds(used.map(({ need }) => need))
}

/** Splits a rank among its devices: the GPUs in proportion to free memory, the remaining layers in RAM. */
function dealt (job: Job, { devices }: BackendOption, layers: number, parts: number): DeviceShare[] {
  const holds = (one: DeviceOption, count: number): DeviceShare =>
    ({ ...one, layers: count, need: jobNeed(job, { of: count, parts }, one) })
  if (devices.length === 1) return [holds(devices[0]!, layers)]
  const gpus = devices.filter(({ device }) => device !== 'ram')
  const rooms = gpus.map((gpu) =>
    ({ weight: gpu.usable.usableBytes, capacity: layersThatFit(job, gpu, parts) }))
  const room = rooms.reduce((sum, { capacity }) => sum + capacity, 0)
  // If there is no RAM for the remaining layers, assign all to the GPUs, which then lack memory.
  const onGpus = gpus.length < devices.length ? Math.min(layers, room) : layers
  const counts = splitLayers(onGpus, onGpus <= room ? rooms
    : rooms.map(({ weight }) => ({ weight, capacity: layers })), 0)
  const rest = layers - onGpus
  return devices.map((one, i) => holds(one, one.device === 'ram' ? rest : counts[i]!))
}

/**
 * Splits whole layers in proportion to the weights; each rank gets at least `least` and at most its capacity.
 * The capacities must suffice for all layers, and `layers` must suffice for every rank's minimum.
 */
function splitLayers (
  layers: number, ranks: readonly { weight: number, capacity: number }[], least = 1
): number[] {
  const total = ranks.reduce((sum, { weight }) => sum + weight, 0)
  const due = ranks.map(({ weight }) => total > 0 ? layers * weight / total : layers / ranks.length)
  const counts = ranks.map(() => least)
  for (let left = layers - least * ranks.length; left > 0; left--) {
    let best = -1
    ranks.forEach(({ capacity }, i) => {
      if (counts[i]! >= capacity) return
      if (best < 0 || due[i]! - counts[i]! > due[best]! - counts[best]!) best = i
    })
    counts[best]!++
  }
  return counts
}
