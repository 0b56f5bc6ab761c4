import type { ArrangedNode } from './arrange.js'
import { compareText, jobNeed, type BackendOption, type CandidateNode, type Job } from './candidates.js'
import { bytesOf, without } from './evict.js'
import { bytesToFree, gib } from './memory.js'
import { least, missingBytes, type Shortage, type Unplanned } from './refusals.js'
import { smallerContexts } from './slots.js'
import { canPlan } from './solve.js'
import type { Change, ClusterView, NodeFacts, PlanRequest, Suggestion } from './types.js'

/** Limit on the changes of one kind that are tried; any beyond it are not considered. */
const TRIED_MAX = 8
/** Limit on suggestions to stop an instance and on those to free memory; other kinds have at most one. */
const TOLD_MAX = 3

export function withChange (
  request: PlanRequest, view: ClusterView, change: Change
): { request: PlanRequest, view: ClusterView } {
  switch (change.kind) {
    case 'sharding': return { request: { ...request, sharding: change.sharding }, view }
    case 'instance_meta': return { request: { ...request, instanceMeta: change.instanceMeta }, view }
    case 'context_length': return { request: { ...request, contextLength: change.contextLength }, view }
    case 'slots': return { request: { ...request, slots: change.slots }, view }
    case 'min_nodes': return { request: { ...request, minNodes: change.minNodes }, view }
    case 'include': return { request: including(request, view, change.nodeIds), view }
    case 'undrain': return { request, view: { ...view, nodes: view.nodes.map((node) =>
      change.nodeIds.includes(node.nodeId) ? { ...node, drained: false } : node) } }
    case 'free': return { request, view: { ...view, releasing: [...view.releasing, change] } }
    case 'stop': return { request, view: without(view, view.instances.filter(({ instanceId }) =>
      instanceId === change.instanceId)) }
  }
}

function including (request: PlanRequest, view: ClusterView, nodeIds: readonly string[]): PlanRequest {
  const freed = new Set(view.nodes.filter(({ nodeId }) => nodeIds.includes(nodeId))
    .flatMap(({ nodeId, installId }) => [nodeId, installId]))
  return { ...request, excluded: request.excluded.filter((id) => !freed.has(id)) }
}

/** Changes that make the request succeed, each verified by planning; the easiest kind first. */
export function suggest (
  request: PlanRequest, view: ClusterView, { reason, shortage }: Unplanned
): Suggestion[] {
  if (reason === 'info_pending') return []
  const kinds: [Suggestion[], number][] = [
    [shortage === undefined ? [] : smallerContext(request), 1],
    [shortage === undefined ? [] : fewerSlots(request), 1],
    [otherShape(request, view), 1],
    [fewerNodes(request, view), 1],
    [fewerExclusions(request, view), 1],
    [fewerDrained(view), 1]
  ]
  if (shortage !== undefined) kinds.push([stops(view), TOLD_MAX], [frees(shortage), TOLD_MAX])
  return kinds.flatMap(([changes, most]) => {
    const works: Suggestion[] = []
    for (const change of changes) {
      const changed = withChange(request, view, change)
      if (works.length < most && canPlan(changed.request, changed.view)) works.push(change)
    }
    return works
  })
}

const smallerContext = (request: PlanRequest): Suggestion[] => smallerContexts(request).map((contextLength) =>
  ({ kind: 'context_length', contextLength, text: `set context_length to ${contextLength}` }))

function fewerSlots ({ slots = 1 }: PlanRequest): Suggestion[] {
  const counts = Array.from({ length: TRIED_MAX }, (_, i) => Math.floor(slots / 2 ** (i + 1)))
  return counts.filter((each) => each > 0).map((each) =>
    ({ kind: 'slots', slots: each, text: `set slots to ${each}` }))
}

/** Suggests the `instance_meta` that the engine supports if it differs, then the other sharding. */
function otherShape (
  { card, sharding: now, instanceMeta: asked }: PlanRequest, view: ClusterView
): Suggestion[] {
  const sharding = now === 'Pipeline' ? 'Tensor' : 'Pipeline'
  const other: Suggestion = { kind: 'sharding', sharding, text: `set sharding to ${sharding}` }
  const traits = Object.hasOwn(view.engines, card.engine) ? view.engines[card.engine] : undefined
  if (traits?.multiNode !== true || traits.meta === asked) return [other]
  const { meta: instanceMeta } = traits
  return [{ kind: 'instance_meta', instanceMeta, text: `set instance_meta to ${instanceMeta}` }, other]
}

function fewerNodes (request: PlanRequest, view: ClusterView): Suggestion[] {
  const most = Math.min(least(request) - 1, view.nodes.length)
  const counts = Array.from({ length: Math.min(most, TRIED_MAX) }, (_, i) => most - i)
  if (most > TRIED_MAX) counts.push(1)
  return counts.map((minNodes) => ({ kind: 'min_nodes', minNodes, text: `set min_nodes to ${minNodes}` }))
}

function fewerExclusions ({ excluded }: PlanRequest, { nodes }: ClusterView): Suggestion[] {
  const ids = new Set(excluded)
  return withNodes('include', 'no longer exclude',
    nodes.filter(({ nodeId, installId }) => ids.has(nodeId) || ids.has(installId)))
}

function fewerDrained ({ nodes }: ClusterView): Suggestion[] {
  return withNodes('undrain', 'undrain', nodes.filter(({ drained }) => drained === true))
}

function withNodes (kind: 'include' | 'undrain', words: string, nodes: readonly NodeFacts[]): Suggestion[] {
  const out = [...nodes].sort((a, b) => compareText(a.nodeId, b.nodeId))
  const groups = out.slice(0, TRIED_MAX).map((node) => [node])
  if (out.length > 1) groups.push(out)
  return groups.map((group) => ({
    kind, nodeIds: group.map(({ nodeId }) => nodeId),
    text: `${words} ${group.map(({ name }) => name).join(', ')}`
  }))
}

/** Suggestions to stop an instance, smallest instance first. */
function stops ({ instances }: ClusterView): Suggestion[] {
  return [...instances]
    .sort((a, b) => bytesOf(a) - bytesOf(b) || compareText(a.instanceId, b.instanceId)).slice(0, TRIED_MAX)
    .map(({ instanceId, modelId }) =>
      ({ kind: 'stop', instanceId, text: `stop instance ${instanceId} (${modelId})` }))
}

type Free = Suggestion & { kind: 'free' }

/**
 * Suggests memory to free on one node, smallest amount first: enough for the whole model, or for the node's
 * part in the arrangement with the smallest shortage.
 */
function frees ({ job, nearest, candidates }: Shortage): Suggestion[] {
  const alone = least(job.request) > 1 ? [] : candidates.flatMap((candidate) => aloneOn(job, candidate))
  const together = nearest.length === 1 ? [] : nearest.flatMap((member) => heldBy(job, nearest, member))
  const leastByNode = new Map<string, Free>()
  for (const change of [...alone, ...together]) {
    const known = leastByNode.get(change.nodeId)
    if (known === undefined || change.bytes < known.bytes) leastByNode.set(change.nodeId, change)
  }
  return [...leastByNode.values()].sort((a, b) => a.bytes - b.bytes || compareText(a.nodeId, b.nodeId))
    .slice(0, TRIED_MAX)
}

function aloneOn (job: Job, { node, options, pending }: CandidateNode): Free[] {
  if (pending) return []
  return options.flatMap((option) => freeOn(node, option, neededOn(job, option, 1, 1)))
}

/** Memory that `member` needs in order to take all layers that the other nodes cannot hold. */
function heldBy (job: Job, members: readonly ArrangedNode[], member: ArrangedNode): Free[] {
  const { candidate: { node, pending }, option } = member
  const others = members.filter((other) => other !== member)
  if (pending) return []
  if (job.request.sharding === 'Tensor') {
    return others.some((other) => missingBytes(other) > 0)
      ? [] : freeOn(node, option, member.need.neededBytes)
  }
  if (others.some((other) => other.option.layers === 0)) return []
  const held = others.reduce((sum, other) => sum + other.option.layers, 0)
  const layers = Math.max(1, job.layers - held)
  return freeOn(node, option, neededOn(job, option, layers, job.layers))
}

const neededOn = (job: Job, { devices }: BackendOption, of: number, parts: number): number =>
  jobNeed(job, { of, parts }, devices[0]!).neededBytes

function freeOn (
  { nodeId, name, gpus }: NodeFacts, { backend, devices, usable }: BackendOption, neededBytes: number
): Free[] {
  if (devices.length > 1) return []
  const bytes = bytesToFree(usable, neededBytes)
  if (bytes === null) return []
  const memory = backend !== 'cpu' && gpus.length > 0 ? 'GPU memory' : 'memory'
  // Round up, so that freeing the displayed amount is enough.
  const text = `free ${gib(bytes, Math.ceil)} of ${memory} on ${name}`
  return [{ kind: 'free', nodeId, backend, bytes, text }]
}
