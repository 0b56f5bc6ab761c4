import type { MemoryTraits } from '../../../kernel/index.js'
import { needOf } from '../../runners/cards/memory-forecast.js'
import { runsOn } from '../../runners/cards/backends.js'
import type { Need, Part } from '../../runners/cards/memory-forecast.js'
import { whyLibraryCannot } from '../../runners/service.js'
import { deviceOf, memoryTraits, sumUsable, usableOf } from './memory.js'
import type { Device, Usable } from './memory.js'
import type { ClusterView, EngineTraits, NodeFacts, PlanRequest } from './types.js'

/** What is asked, with the engine's traits at hand. */
export interface Job {
  request: PlanRequest
  traits: EngineTraits
  /** Units the model is cut into; at least 1, also where the card says 0. */
  layers: number
  /** Contexts for answers at once; undefined for an engine without slots. */
  slots: number | undefined
}

/** One memory of a node, what it can give, and what the engine takes there. */
export interface DeviceOption { device: Device, usable: Usable, takes: MemoryTraits }

export interface BackendOption {
  backend: string
  /** Place in the engine's order of preference, 0 is best; with a half where the CPU has to help the GPUs. */
  order: number
  /** One, or its GPUs in their order, then its RAM for what they cannot hold. */
  devices: readonly DeviceOption[]
  usable: Usable
  /** Most layers that fit, 0 when not even one does. */
  layers: number
}

/** A node that may take part. `options` is best backend first and never empty. */
export interface CandidateNode {
  node: NodeFacts
  /** It has not told enough: `options` is the most it could turn out to be. */
  pending: boolean
  stagedBytes: number
  options: BackendOption[]
}

export function joins ({ request }: Job, { node }: CandidateNode, size: number): boolean {
  return size === 1 || request.instanceMeta !== 'LlamaRpc' || (node.lends && !usesLibrary(request, node))
}

export const usesLibrary = ({ card: { engine } }: Pick<PlanRequest, 'card'>, node: NodeFacts): boolean =>
  node.onLibrary?.includes(engine) === true

export type Neighbours = (one: CandidateNode) => ReadonlySet<CandidateNode>

/**
 * Connections between candidates. Both directions must be live; a pending candidate counts as linked with
 * all, since its connections may not be told either. Read when first asked: most placements take one node.
 */
export function neighboursIn (
  candidates: readonly CandidateNode[], edges: ClusterView['edges']
): Neighbours {
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

/** Who may take part, and who is out. In order of node id. */
export interface CandidateSet {
  candidates: CandidateNode[]
  excluded: NodeFacts[]
  drained: NodeFacts[]
  /** Run models, but have no backend for this one. */
  withoutBackend: NodeFacts[]
  management: NodeFacts[]
}

/** More memory than any machine has, and still exact in arithmetic: 2 PiB, half of it free. */
const BOUNDLESS = { ramTotal: 2 ** 51, ramAvailable: 2 ** 50 }

export function jobNeed (
  { request, slots }: Job, part: Part, { device, takes }: Pick<DeviceOption, 'device' | 'takes'>
): Need {
  return needOf(request.card, takes,
    { context: request.contextLength, slots, part, gpu: device !== 'ram' })
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

/** Ways to run the model on the node, best first; of an untold node, all that are thinkable. */
function optionsOf (
  job: Job, node: NodeFacts, pending: boolean, view: ClusterView
): BackendOption[] {
  const { request: { card }, traits } = job
  if (node.lacks?.includes(card.engine) === true) return []
  if (traits.library !== undefined && usesLibrary({ card }, node) &&
    whyLibraryCannot(traits.library, card) !== null) {
    return []
  }
  const told = node.backends === null ? traits.backends
    : Object.hasOwn(node.backends, card.engine) ? node.backends[card.engine]! : []
  const shown = pending ? { ...node, memory: BOUNDLESS, gpus: [] } : { ...node, memory: node.memory! }
  const claims = pending ? { reservations: [], releasing: [] } : view
  const takes = memoryTraits(traits, card.engine, node)
  return [...new Set(told)].filter((backend) => runsOn(card, backend)).flatMap((backend) => {
    const at = traits.backends.indexOf(backend)
    // Backends the engine does not list come after all it does.
    const order = at < 0 ? traits.backends.length : at
    return devicesOf(shown, backend, traits).map((list, i) => {
      const devices = list.map((device) => ({ device, takes, usable: usableOf(shown, device, claims) }))
      const usable = sumUsable(devices.map((one) => one.usable))
      return { backend, order: order + i / 2, devices, usable, layers: layersOn(job, devices, job.layers) }
    })
  }).sort((a, b) => a.order - b.order || compareText(a.backend, b.backend))
}

/** The devices that an engine uses on a node with a backend, in the ways in which it can, the best first. */
export function devicesOf (node: NodeFacts, backend: string, { manyDevices }: EngineTraits): Device[][] {
  const first = deviceOf(node, { backend })
  if (first === 'ram' || manyDevices !== true) return [[first]]
  const gpus = node.gpus.map((_, gpu) => gpu)
  return [gpus, [...gpus, 'ram']]
}

/**
 * Layers that devices hold together, each of `parts` a model is cut into: as many as the GPUs can, and of the
 * rest what the RAM can; 0 where no GPU holds any.
 */
export function layersOn (job: Job, devices: readonly DeviceOption[], parts: number): number {
  const counts = devices.map((device) => layersThatFit(job, device, parts))
  const helps = devices.length > 1 && devices.at(-1)!.device === 'ram'
  if (helps && counts.slice(0, -1).every((count) => count === 0)) return 0
  return Math.min(job.layers, counts.reduce((sum, count) => sum + count, 0))
}

/** Of the `parts` of a model those that fit, at most as many as it has layers. A part more needs no less. */
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

/** Order of text that does not depend on the locale. */
export function compareText (a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
