import type { ArrangedNode } from './arrange.js'
import { compareText, jobNeed } from './candidates.js'
import type { BackendOption, CandidateNode, Job } from './candidates.js'
import { bytesToFree } from './memory.js'
import { canPlan, least, shortOf } from './solve.js'
import type { Problem } from './solve.js'
import type {
  Change, ClusterView, InstanceMemory, Meter, NodeFacts, PlanRequest, Suggestion
} from './types.js'

/** Of each kind of change, how many are tried and how many are told. */
const TRIED_MAX = 8
const TOLD_MAX = 3

/** The request and the view after a change. */
export function withChange (
  request: PlanRequest, view: ClusterView, change: Change
): { request: PlanRequest, view: ClusterView } {
  switch (change.kind) {
    case 'sharding': return { request: { ...request, sharding: change.sharding }, view }
    case 'instance_meta': return { request: { ...request, instanceMeta: change.instanceMeta }, view }
    case 'min_nodes': return { request: { ...request, minNodes: change.minNodes }, view }
    case 'include': return { request: including(request, view, change.nodeIds), view }
    case 'free': return { request, view: { ...view, releasing: [...view.releasing, change] } }
    case 'stop': {
      const stopped = view.instances?.find(({ instanceId }) => instanceId === change.instanceId)
      return { request, view: { ...view, releasing: [...view.releasing, ...stopped?.memory ?? []] } }
    }
  }
}

function including (request: PlanRequest, view: ClusterView, nodeIds: readonly string[]): PlanRequest {
  const freed = new Set(view.nodes
    .filter(({ nodeId }) => nodeIds.includes(nodeId))
    .flatMap(({ nodeId, installId }) => [nodeId, installId]))
  return { ...request, excluded: request.excluded.filter((id) => !freed.has(id)) }
}

/** Changes after which the request is planned, each tried; the easiest kind first. */
export function suggest (
  request: PlanRequest, view: ClusterView, problem: Problem, meter: Meter
): Suggestion[] {
  if (problem.reason === 'info_pending') return []
  const memory = problem.reason === 'insufficient_memory'
  const kinds = [
    otherShape(request, view),
    fewerNodes(request, view),
    fewerExclusions(request, view),
    memory ? stops(view) : [],
    memory ? frees(problem) : []
  ]
  return kinds.flatMap((changes) => {
    const works: Suggestion[] = []
    for (const change of changes) {
      const changed = withChange(request, view, change)
      if (!canPlan(changed.request, changed.view, meter)) continue
      works.push({ ...change, text: textOf(change, view) })
      if (works.length === toldMax(change)) break
    }
    return works
  })
}

function toldMax ({ kind }: Change): number {
  return kind === 'stop' || kind === 'free' ? TOLD_MAX : 1
}

/** The other sharding, and where nodes are linked in another way by this engine, that way. */
function otherShape ({ card, sharding, instanceMeta }: PlanRequest, view: ClusterView): Change[] {
  const changes: Change[] = [{ kind: 'sharding', sharding: sharding === 'Pipeline' ? 'Tensor' : 'Pipeline' }]
  const traits = Object.hasOwn(view.engines, card.engine) ? view.engines[card.engine] : undefined
  const meta = traits?.meta ?? 'Ring'
  if (traits?.multiNode === true && meta !== instanceMeta) {
    changes.unshift({ kind: 'instance_meta', instanceMeta: meta })
  }
  return changes
}

/** The next smaller numbers of nodes, and one. */
function fewerNodes (request: PlanRequest, view: ClusterView): Change[] {
  const most = Math.min(least(request) - 1, view.nodes.length)
  const counts = Array.from({ length: Math.min(most, TRIED_MAX) }, (_, i) => most - i)
  if (most > TRIED_MAX) counts.push(1)
  return counts.map((minNodes) => ({ kind: 'min_nodes', minNodes }))
}

/** One excluded node each, then all of them. */
function fewerExclusions ({ excluded }: PlanRequest, view: ClusterView): Change[] {
  const ids = new Set(excluded)
  const out = view.nodes
    .filter(({ nodeId, installId }) => ids.has(nodeId) || ids.has(installId))
    .map(({ nodeId }) => nodeId)
    .sort(compareText)
  const single = out.slice(0, TRIED_MAX).map((nodeId): Change => ({ kind: 'include', nodeIds: [nodeId] }))
  return out.length > 1 ? [...single, { kind: 'include', nodeIds: out }] : single
}

/** Running instances, those that give back least first. */
function stops ({ instances = [] }: ClusterView): Change[] {
  const sum = ({ memory }: InstanceMemory): number => memory.reduce((all, { bytes }) => all + bytes, 0)
  return [...instances]
    .sort((a, b) => sum(a) - sum(b) || compareText(a.instanceId, b.instanceId))
    .slice(0, TRIED_MAX)
    .map(({ instanceId }) => ({ kind: 'stop', instanceId }))
}

type Free = Change & { kind: 'free' }

/** Memory to free on one node alone: of the nearest arrangement, or to hold the whole model; least first. */
function frees ({ job, nearest, candidates }: Problem & { reason: 'insufficient_memory' }): Change[] {
  const alone = least(job.request) > 1 ? [] : candidates.flatMap((candidate) => aloneOn(job, candidate))
  const together = nearest.length === 1 ? [] : nearest.flatMap((member) => heldBy(job, nearest, member))
  const leastByNode = new Map<string, Free>()
  for (const change of [...alone, ...together]) {
    const known = leastByNode.get(change.nodeId)
    if (known === undefined || change.bytes < known.bytes) leastByNode.set(change.nodeId, change)
  }
  return [...leastByNode.values()]
    .sort((a, b) => a.bytes - b.bytes || compareText(a.nodeId, b.nodeId))
    .slice(0, TRIED_MAX)
}

function aloneOn (job: Job, { node, options, pending }: CandidateNode): Free[] {
  if (pending) return []
  return options.flatMap((option) => freeOn(node, option, jobNeed(job, { of: 1, parts: 1 }).neededBytes))
}

/** What the member must be given to take over all that the others cannot hold. */
function heldBy (job: Job, members: readonly ArrangedNode[], member: ArrangedNode): Free[] {
  const { candidate: { node, pending }, option } = member
  const others = members.filter((other) => other !== member)
  if (pending) return []
  if (job.request.sharding === 'Tensor') {
    return others.some((other) => shortOf(other) > 0) ? [] : freeOn(node, option, member.need.neededBytes)
  }
  if (others.some((other) => other.option.layers === 0)) return []
  const held = others.reduce((sum, other) => sum + other.option.layers, 0)
  const layers = Math.max(1, job.layers - held)
  return freeOn(node, option, jobNeed(job, { of: layers, parts: job.layers }).neededBytes)
}

function freeOn ({ nodeId }: NodeFacts, { backend, usable }: BackendOption, neededBytes: number): Free[] {
  const bytes = bytesToFree(usable, neededBytes)
  return bytes === null ? [] : [{ kind: 'free', nodeId, backend, bytes }]
}

function textOf (change: Change, view: ClusterView): string {
  switch (change.kind) {
    case 'sharding': return `set sharding to ${change.sharding}`
    case 'instance_meta': return `set instance_meta to ${change.instanceMeta}`
    case 'min_nodes': return `set min_nodes to ${change.minNodes}`
    case 'include': return `no longer exclude ${change.nodeIds.map((id) => nameOf(view, id)).join(', ')}`
    case 'free': {
      const node = view.nodes.find(({ nodeId }) => nodeId === change.nodeId)
      const kind = change.backend !== 'cpu' && node?.vram != null ? 'GPU memory' : 'memory'
      return `free ${gibUp(change.bytes)} of ${kind} on ${nameOf(view, change.nodeId)}`
    }
    case 'stop': {
      const stopped = view.instances?.find(({ instanceId }) => instanceId === change.instanceId)
      return `stop instance ${change.instanceId} (${stopped?.modelId ?? ''})`
    }
  }
}

/** Rounded up, so that freeing what the text says is enough. */
function gibUp (bytes: number): string {
  return `${(Math.ceil(bytes / 1024 ** 3 * 100) / 100).toFixed(2)} GiB`
}

function nameOf (view: ClusterView, nodeId: string): string {
  return view.nodes.find((node) => node.nodeId === nodeId)?.name ?? nodeId
}
