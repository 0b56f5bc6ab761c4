import type { ArrangedNode } from './arrange.js'
import { compareText } from './candidates.js'
import type { CandidateNode } from './candidates.js'
import { gib } from './memory.js'
import { least, shortOf } from './solve.js'
import type { Problem } from './solve.js'
import type { ClusterView, NodeFacts, PlanRequest, RefusalReason } from './types.js'

/** A refusal before the suggestions are added. */
export interface Account { reason: RefusalReason, message: string, details: Record<string, unknown> }

/** Nodes named in a message, and pairs of nodes in details. */
const NAMED_MAX = 4
const ONE_WAY_MAX = 16

/** Puts a problem in words, with its numbers beside it. */
export function accountOf (request: PlanRequest, view: ClusterView, problem: Problem): Account {
  const told = inWords(request, view, problem)
  return {
    reason: problem.reason,
    message: told.message,
    details: { modelId: request.card.modelId, ...told.details }
  }
}

type Words = Omit<Account, 'reason'>

function inWords (request: PlanRequest, view: ClusterView, problem: Problem): Words {
  switch (problem.reason) {
    case 'tensor_unsupported': return tensorUnsupported(request, problem.traits.tensor)
    case 'too_few_layers': return tooFewLayers(request)
    case 'no_backend': return noBackend(request, problem)
    case 'exclusions_removed_all': return allExcluded(request, problem.survey.excluded)
    case 'info_pending': return infoPending(problem.pending)
    case 'spread_unsupported': return notSpread(problem)
    case 'tensor_indivisible': return indivisible(request, problem.candidates)
    case 'no_connected_cycle': return noCycle(problem, view)
    case 'insufficient_memory': return noMemory(problem)
  }
}

function tensorUnsupported ({ card }: PlanRequest, engineTensor: boolean): Words {
  const who = card.supportsTensor ? `Engine ${card.engine}` : `Model ${card.modelId}`
  return {
    message: `${who} does not support Tensor sharding.`,
    details: {
      engine: card.engine,
      modelSupportsTensor: card.supportsTensor,
      engineSupportsTensor: engineTensor
    }
  }
}

function tooFewLayers ({ card, minNodes }: PlanRequest): Words {
  return {
    message: `Model ${card.modelId} has ${count(card.nLayers, 'layer')}, too few for ${minNodes} nodes: ` +
      'every node of a Pipeline holds at least one.',
    details: { nLayers: card.nLayers, minNodes }
  }
}

function noBackend ({ card }: PlanRequest, { traits, survey }: Problem & { reason: 'no_backend' }): Words {
  const details = {
    engine: card.engine,
    modelBackends: card.backends,
    engineBackends: traits?.backends ?? [],
    nodes: (survey?.withoutBackend ?? []).map((node) => ({
      ...idOf(node),
      backends: node.backends !== null && Object.hasOwn(node.backends, card.engine)
        ? node.backends[card.engine]
        : []
    })),
    managementNodes: (survey?.management ?? []).map(idOf)
  }
  if (traits === null) {
    const message = `Model ${card.modelId} needs engine ${card.engine}, which no plugin here brings.`
    return { message, details }
  }
  const message = details.nodes.length === 0
    ? `No node runs models, so ${card.modelId} cannot be placed.`
    : `No node can run ${card.modelId}: engine ${card.engine} needs one of ` +
      `${card.backends.join(', ') || 'no backend (the card names none)'}.`
  return { message, details }
}

function allExcluded ({ card }: PlanRequest, excluded: readonly NodeFacts[]): Words {
  return {
    message: `The exclusions removed every node that can run ${card.modelId}: ${named(excluded)}.`,
    details: { excludedNodes: excluded.map(idOf) }
  }
}

function infoPending (pending: readonly CandidateNode[]): Words {
  const nodes = pending.map(({ node }) => node)
  return {
    message: `Waiting for ${named(nodes)} to tell what ${nodes.length === 1 ? 'it has' : 'they have'}; ` +
      'retry in a few seconds.',
    details: { pendingNodes: nodes.map((node) => ({ ...idOf(node), missing: missingOf(node) })) }
  }
}

function missingOf (node: NodeFacts): string[] {
  return (['memory', 'backends', 'participation'] as const).filter((fact) => node[fact] === null)
}

function indivisible ({ card, minNodes }: PlanRequest, candidates: number): Words {
  const { heads, kvHeads, hiddenSize } = card
  const range = candidates > minNodes
    ? `any number of nodes from ${minNodes} to ${candidates}`
    : `${minNodes} nodes`
  return {
    message: `Tensor sharding deals out ${heads} heads, ${kvHeads} key-value heads and a width of ` +
      `${hiddenSize} evenly, which ${range} cannot do.`,
    details: { heads, kvHeads, hiddenSize, minNodes, candidates }
  }
}

function notSpread ({ job, refusing }: Problem & { reason: 'spread_unsupported' }): Words {
  const { card: { engine }, instanceMeta, minNodes } = job.request
  const { multiNode, meta = 'Ring' } = job.traits
  const engineSpreadsAs = multiNode ? meta : null
  if (refusing.length > 0) {
    const nodes = refusing.map(({ node }) => node)
    return {
      message: `Too few nodes may share a model with others for min_nodes ${minNodes}: ` +
        `plugins.runners.rpc_for_every_user is not set on ${named(nodes)}.`,
      details: { engine, minNodes, engineSpreadsAs, refusingNodes: nodes.map(idOf) }
    }
  }
  const how = multiNode ? `spreads a model over nodes as ${meta}, not as ${instanceMeta}`
    : 'runs a model on one node'
  return {
    message: `Engine ${engine} ${how}, so min_nodes ${minNodes} cannot be met.`,
    details: { engine, minNodes, engineSpreadsAs }
  }
}

function noCycle (problem: Problem & { reason: 'no_connected_cycle' }, view: ClusterView): Words {
  const { job: { request }, candidates, cut } = problem
  return {
    message: cycleMessage(request, candidates.length, cut),
    details: {
      minNodes: request.minNodes,
      candidates: candidates.map(({ node }) => idOf(node)),
      oneWayLinks: oneWayLinks(candidates, view),
      searchCut: cut
    }
  }
}

function cycleMessage (request: PlanRequest, candidates: number, cut: boolean): string {
  const { card: { modelId }, instanceMeta, minNodes } = request
  if (candidates < least(request)) {
    return `min_nodes is ${minNodes}, but ${count(candidates, 'node')} can run ${modelId}.`
  }
  const shape = instanceMeta === 'LlamaRpc'
    ? `No node has live links both ways to ${least(request) - 1} others`
    : `No cycle of ${least(request)} or more nodes with live links both ways`
  return `${shape} among the ${candidates} that can run ${modelId}` +
    `${cut ? ' was found; the search was cut short' : ''}.`
}

/** Links that are live in one direction only: often the gap in a topology. */
function oneWayLinks (candidates: readonly CandidateNode[], view: ClusterView): ClusterView['edges'] {
  const ids = new Set(candidates.map(({ node }) => node.nodeId))
  const key = (from: string, to: string): string => JSON.stringify([from, to])
  const live = new Map(view.edges.map(({ from, to }) => [key(from, to), { from, to }]))
  return [...live]
    .filter(([, { from, to }]) => ids.has(from) && ids.has(to) && !live.has(key(to, from)))
    .sort(([a], [b]) => compareText(a, b))
    .slice(0, ONE_WAY_MAX)
    .map(([, link]) => link)
}

function noMemory ({ job, nearest, candidates }: Problem & { reason: 'insufficient_memory' }): Words {
  const told = nearest.filter(({ candidate }) => !candidate.pending)
  const short = told.filter((member) => shortOf(member) > 0)
  const shown = short.slice(0, NAMED_MAX).map(arithmetic).join('; ')
  const more = short.length > NAMED_MAX ? `; and ${short.length - NAMED_MAX} more` : ''
  const best = nearest.length < candidates.length ? 'the nearest choice, ' : ''
  return {
    message: `Model ${job.request.card.modelId} does not fit on ${best}${count(nearest.length, 'node')}: ` +
      `${shown}${more}.`,
    details: {
      sharding: nearest.length === 1 ? 'Pipeline' : job.request.sharding,
      nodes: told.map((member) => ({ ...idOf(member.candidate.node), ...termsOf(member) })),
      candidates: candidates.map(({ node }) => idOf(node))
    }
  }
}

/** `attic: needs 13.20 GiB (weights 9.75 GiB x 1.30 + cache 0.27 GiB + 0.25 GiB), has 11.90 GiB`. */
function arithmetic (member: ArrangedNode): string {
  const { candidate: { node }, need, option: { usable } } = member
  const [needs, has] = [gib(need.neededBytes), gib(usable.usableBytes)]
  const close = needs === has ? `, ${count(shortOf(member), 'byte')} too few` : ''
  return `${node.name}: needs ${needs} (weights ${gib(need.shareBytes)} x ${need.overhead.toFixed(2)} + ` +
    `cache ${gib(need.cacheBytes)} + ${gib(need.fixedBytes)}), has ${has}${close}`
}

/** Every term of the comparison, in bytes. */
function termsOf (member: ArrangedNode): Record<string, unknown> {
  const { option, startLayer, endLayer, need } = member
  const { backend, usable } = option
  return { backend, startLayer, endLayer, ...need, ...usable, shortBytes: shortOf(member) }
}

function idOf ({ nodeId, name }: NodeFacts): { nodeId: string, name: string } {
  return { nodeId, name }
}

function named (nodes: readonly NodeFacts[]): string {
  const more = nodes.length > NAMED_MAX ? ` and ${nodes.length - NAMED_MAX} more` : ''
  return nodes.slice(0, NAMED_MAX).map(({ name }) => name).join(', ') + more
}

function count (n: number, what: string): string {
  return `${n} ${what}${n === 1 ? '' : 's'}`
}
