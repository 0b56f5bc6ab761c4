import type { MemoryTraits } from '../../../kernel/index.js'
import { needOf, type Need, type Part } from '../../runners/cards/memory-forecast.js'
import { runsOn } from '../../runners/cards/backends.js'
import { whyLibraryCannot } from '../../runners/service.js'
import { deviceOf, memoryTraits, sumUsable, usableOf, type Device, type Usable } from './memory.js'
import type { ClusterView, EngineTraits, NodeFacts, PlanRequest } from './types.js'

export interface Job {
  request: PlanRequest
  traits: EngineTraits
  /** Number of parts into which the model can be split; at least 1, even if the card says 0. */
  layers: number
  /** Number of contexts that run in parallel; undefined for an engine without slots. */
  slots: number | undefined
}

/** One device's memory on a node, its usable size, and the engine's overheads there. */
export interface DeviceOption { device: Device, usable: Usable, takes: MemoryTraits }

export interface BackendOption {
  backend: string
  /** Position in the engine's preferences, from 0 (best); 1/2 is added if the CPU shares layers with GPUs. */
  order: number
  /** Either one device, or all GPUs in order, possibly followed by RAM for the remaining layers. */
  devices: readonly DeviceOption[]
  usable: Usable
  layers: number
}

/** A node that can run the model; `options` has the best backend first and is never empty. */
export interface CandidateNode {
  node: NodeFacts
  /** True if readings are missing; `options` then assumes the best case. */
  pending: boolean
  stagedBytes: number
  options: BackendOption[]
}

export function joins ({ request }: Job, { node }: CandidateNode, size: number): boolean {
  return size === 1 || (node.lends && node.apart === undefined && !usesLibrary(request, node))
}

export const usesLibrary = ({ card: { engine } }: Pick<PlanRequest, 'card'>, node: NodeFacts): boolean =>
  node.onLibrary?.includes(engine) === true

export type Neighbours = (one: CandidateNode) => ReadonlySet<CandidateNode>

/**
 * Links between candidates that are live in both directions. A pending candidate counts as linked to all
 * others, because it may not have reported its links yet. Lazy, because most placements use only one node.
 */
export function neighboursIn (candidates: readonly CandidateNode[], edges: ClusterView['edges']): Neighbours {
  const known = new Map<CandidateNode, ReadonlySet<CandidateNode>>()
  let live: Set<string> | undefined
  const linked = (a: CandidateNode, b: CandidateNode): boolean => {
    live ??= new Set(edges.map(({ from, to }) => `${from} ${to}`))
    const [one, other] = [a.node.nodeId, b.node.nodeId]
    return a !== b && (a.pending || b.pending ||
      (live.has(`${one} ${other}`) && live.has(`${other} ${one}`)))
  }
  return (one) => {
    const all = known.get(one) ?? new Set(candidates.filter((other) => linked(one, other)))
    known.set(one, all)
    return all
  }
}

/** All nodes, grouped by whether they can run the model and, if not, why; each list is in node id order. */
export interface CandidateSet {
  candidates: CandidateNode[]
  excluded: NodeFacts[]
  drained: NodeFacts[]
  /** Nodes that run models but have no backend for this one. */
  withoutBackend: NodeFacts[]
  management: NodeFacts[]
}

/** More memory than any machine has, but exact as a double: 2 PiB, half of it free. */
const BOUNDLESS = { ramTotal: 2 ** 51, ramAvailable: 2 ** 50 }

export function jobNeed (
  { request, slots }: Job, part: Part, { device, takes }: Pick<DeviceOption, 'device' | 'takes'>
): Need {
  return needOf(request.card, takes, { context: request.contextLength, slots, part, gpu: device !== 'ram' })
}

export function survey (job: Job, view: ClusterView): CandidateSet {
  const { card: { modelId }, excluded: ids } = job.request
  const excluded = new Set(ids)
  const out: CandidateSet = { candidates: [], excluded: [], drained: [], withoutBackend: [], management: [] }
  for (const node of [...view.nodes].sort((a, b) => compareText(a.nodeId, b.nodeId))) {
    const pending = node.memory === null || node.backends === null || node.participation === null
    const options = optionsOf(job, node, pending, view)
    const stagedBytes = node.stagedBytes.get(modelId) ?? 0
    if (node.participation === 'management') out.management.push(node)
    else if (options.length === 0) out.withoutBackend.push(node)
    else if (node.drained === true) out.drained.push(node)
    else if (excluded.has(node.nodeId) || excluded.has(node.installId)) out.excluded.push(node)
    else out.candidates.push({ node, pending, stagedBytes, options })
  }
  return out
}

/** Options to run the model on a node, best first; a pending node has all that its readings might allow. */
function optionsOf (job: Job, node: NodeFacts, pending: boolean, view: ClusterView): BackendOption[] {
  const { request: { card }, traits } = job
  if (node.lacks?.includes(card.engine) === true) return []
  if (traits.library !== undefined && usesLibrary({ card }, node) &&
    whyLibraryCannot(traits.library, card) !== null) {
    return []
  }
  const told = node.backends === null ? traits.backends
    : Object.hasOwn(node.backends, card.engine) ? node.backends[card.engine]! : []
  const shown = pending ? { ...node, memory: BOUNDLESS, gpus: [] } : { ...node, memory: node.memory! }
  const claims = pending ? { reservations: [], releasing: [], instances: [] } : view
  const takes = memoryTraits(traits, card.engine, node)
  return [...new Set(told)].filter((backend) => runsOn(card, backend)).flatMap((backend) => {
    const at = traits.backends.indexOf(backend)
    // Backends that are missing from the engine's list come last.
    const order = at < 0 ? traits.backends.length : at
    return devicesOf(shown, backend, traits).map((list, i) => {
      const devices = list.map((device) => ({ device, takes, usable: usableOf(shown, device, claims) }))
      const usable = sumUsable(devices.map((one) => one.usable))
      return { backend, order: order + i / 2, devices, usable, layers: layersOn(job, devices, job.layers) }
    })
  }).sort((a, b) => a.order - b.order || compareText(a.backend, b.backend))
}

/** The sets of devices that an engine can use with a backend, best first. */
export function devicesOf (node: NodeFacts, backend: string, { manyDevices }: EngineTraits): Device[][] {
  const first = deviceOf(node, { backend })
  if (first === 'ram' || manyDevices !== true) return [[first]]
  const gpus = node.gpus.map((_, gpu) => gpu)
  return [gpus, [...gpus, 'ram']]
}

/**
 * Number of layers, each 1/`parts` of the model, that the devices hold together: as many as possible on GPUs,
 * the remaining ones in RAM. 0 if the GPUs hold none.
 */
export function layersOn (job: Job, devices: readonly DeviceOption[], parts: number): number {
  const counts = devices.map((device) => layersThatFit(job, device, parts))
  const helps = devices.length > 1 && devices.at(-1)!.device === 'ram'
  if (helps && counts.slice(0, -1).every((count) => count === 0)) return 0
  return Math.min(job.layers, counts.reduce((sum, count) => sum + count, 0))
}

/**
 * Number of layers that fit, each 1/`parts` of the model. The binary search assumes that the memory needed
 * grows with the number of layers.
 */
export function layersThatFit (job: Job, on: DeviceOption, parts: number): number {
  if (job.request.force) return job.layers
  let [fits, tooMany] = [0, job.layers + 1]
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2)
    if (jobNeed(job, { of: middle, parts }, on).neededBytes < on.usable.usableBytes) fits = middle
    else tooMany = middle
  }
  return fits
}

/** Compares by code units, so that the order does not depend on the locale. */
export function compareText (a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
