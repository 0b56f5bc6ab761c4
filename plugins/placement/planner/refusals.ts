import { needWords } from '../../runners/cards/memory-forecast.js'
import { memoriesField, memoriesOf, type ArrangedNode } from './arrange.js'
import { whyLibraryCannot } from '../../runners/service.js'
import { compareText, usesLibrary, type CandidateNode, type Job, type CandidateSet } from './candidates.js'
import { gib } from './memory.js'
import type { ClusterView, EngineTraits, NodeFacts, PlanRequest, Refusal, RefusalReason } from './types.js'

export interface Unplanned extends Omit<Refusal, 'details'> {
  details: Record<string, unknown>
  /** Set for `insufficient_memory`: the arrangement with the smallest shortage, and the candidate nodes. */
  shortage?: Shortage
}

export interface Shortage { job: Job, nearest: ArrangedNode[], candidates: readonly CandidateNode[] }

/** Limits on the nodes named in a message and on the one-way links in `details`; more are omitted. */
const NAMED_MAX = 4
const ONE_WAY_MAX = 16

function unplanned (
  reason: RefusalReason, { card: { modelId } }: PlanRequest, message: string, details: Record<string, unknown>
): Unplanned {
  return { ok: false, reason, message, details: { modelId, ...details } }
}

export function least ({ minNodes }: PlanRequest): number { return Math.max(1, Math.ceil(minNodes)) }

export function tensorUnsupported (request: PlanRequest, traits: EngineTraits): Unplanned {
  const { engine, modelId, supportsTensor } = request.card
  const who = supportsTensor ? `Engine ${engine}` : `Model ${modelId}`
  return unplanned('tensor_unsupported', request, `${who} does not support Tensor sharding.`,
    { engine, modelSupportsTensor: supportsTensor, engineSupportsTensor: traits.tensor })
}

export function tooFewLayers (request: PlanRequest): Unplanned {
  const { card: { modelId, nLayers }, minNodes } = request
  return unplanned('too_few_layers', request,
    `Model ${modelId} has ${count(nLayers, 'layer')}, too few for ${minNodes} nodes: ` +
    'every node of a Pipeline holds at least one.', { nLayers, minNodes })
}

export const refusedByEngine = (request: PlanRequest, why: string): Unplanned =>
  unplanned('no_backend', request, why, { engine: request.card.engine })

/** `what` is the start of the message and names the missing program. */
function engineMissing (
  request: PlanRequest, { builds, install }: EngineTraits, nodes: readonly NodeFacts[], what: string
): Unplanned {
  const command = `svc engine add ${builds}`
  return unplanned('engine_missing', request,
    install === undefined ? `${what}, which is not installed on ${named(nodes)}: run \`${command}\` there.`
      : `${what}, which ${named(nodes)} lacks. ${install}`,
    { engine: request.card.engine, nodes: nodes.map(idOf), ...install === undefined ? { command } : {} })
}

/** `traits` and `survey` are null if no plugin provides the engine. */
export function noBackend (
  request: PlanRequest, traits: EngineTraits | null, survey: CandidateSet | null
): Unplanned {
  const { modelId, engine, backends } = request.card
  const without = (survey?.withoutBackend ?? []).filter((node) =>
    node.lacks?.includes(engine) === true || usesLibrary(request, node))
  if (traits?.builds !== undefined && without.length > 0) {
    const why = traits.library !== undefined && without.some((node) => usesLibrary(request, node))
      ? whyLibraryCannot(traits.library, request.card) : null
    const what = `Model ${modelId} runs on ${traits.install === undefined ? traits.builds : traits.program}`
    return engineMissing(request, traits, without, why === null ? what : `${what} itself (${why})`)
  }
  const nodes = (survey?.withoutBackend ?? []).map((node) => ({
    ...idOf(node),
    backends: node.backends !== null && Object.hasOwn(node.backends, engine) ? node.backends[engine] : []
  }))
  let message = `No node can run ${modelId}: engine ${engine} needs one of ` +
    `${backends.join(', ') || 'no backend (the card names none)'}.`
  if (traits === null) message = `Model ${modelId} needs engine ${engine}, which no enabled plugin provides.`
  else if (nodes.length === 0) message = `No node runs models, so ${modelId} cannot be placed.`
  return unplanned('no_backend', request, message, {
    engine, modelBackends: backends, engineBackends: traits?.backends ?? [], nodes,
    managementNodes: (survey?.management ?? []).map(idOf)
  })
}

export function allExcluded (request: PlanRequest, excluded: readonly NodeFacts[]): Unplanned {
  return unplanned('exclusions_removed_all', request,
    `Model ${request.card.modelId} may not be placed on ${named(excluded)} ` +
    '(--node, excluded_nodes), and no other live node can run it.',
    { excludedNodes: excluded.map(idOf) })
}

export function allDrained (request: PlanRequest, drained: readonly NodeFacts[]): Unplanned {
  return unplanned('nodes_drained', request,
    `Every node that can run ${request.card.modelId} is drained: ${named(drained)}.`,
    { drainedNodes: drained.map(idOf) })
}

export function infoPending (request: PlanRequest, pending: readonly CandidateNode[]): Unplanned {
  const nodes = pending.map(({ node }) => node)
  const missing = (node: NodeFacts): string[] =>
    (['memory', 'backends', 'participation'] as const).filter((fact) => node[fact] === null)
  const what = nodes.length === 1 ? 'it has' : 'they have'
  const message = `Waiting for ${named(nodes)} to report what ${what}; retry in a few seconds.`
  const pendingNodes = nodes.map((node) => ({ ...idOf(node), missing: missing(node) }))
  return {
    ...unplanned('info_pending', request, message, { pendingNodes }),
    pendingNodes: nodes.map(({ nodeId }) => nodeId)
  }
}

export function indivisible (request: PlanRequest, candidates: number): Unplanned {
  const { card: { heads, kvHeads, hiddenSize }, minNodes } = request
  const range = candidates > minNodes
    ? `any number of nodes from ${minNodes} to ${candidates}`
    : `${minNodes} nodes`
  return unplanned('tensor_indivisible', request,
    `Tensor sharding splits ${heads} heads, ${kvHeads} key-value heads and a width of ${hiddenSize} ` +
    `evenly, which ${range} do not allow.`,
    { heads, kvHeads, hiddenSize, minNodes, candidates })
}

/** `refusing` contains nodes that may not share a model, if the placement fails only because of them. */
export function cannotSpread ({ request, traits }: Job, refusing: readonly CandidateNode[]): Unplanned {
  const { card: { engine }, instanceMeta, minNodes } = request
  const { multiNode, meta } = traits
  const details = { engine, minNodes, engineSpreadsAs: multiNode ? meta : null }
  const without = refusing.map(({ node }) => node).filter((node) => usesLibrary(request, node))
  if (traits.builds !== undefined && without.length > 0) {
    return engineMissing(request, traits, without, 'Sharing a model with other nodes for ' +
      `min_nodes ${minNodes} requires ${traits.builds} itself`)
  }
  if (refusing.length > 0) {
    const nodes = refusing.map(({ node }) => node)
    const apart = nodes.find((node) => node.lends)
    const why = apart === undefined ? `plugins.runners.rpc_for_every_user is not set on ${named(nodes)}`
      : `on ${apart.name}, ${apart.apart ?? ''}`
    return unplanned('spread_unsupported', request,
      `Too few nodes may share a model with others for min_nodes ${minNodes}: ${why}.`,
      { ...details, refusingNodes: nodes.map(idOf) })
  }
  const how = multiNode ? `spreads a model over nodes as ${meta}, not as ${instanceMeta}`
    : 'runs a model on one node'
  return unplanned('spread_unsupported', request,
    `Engine ${engine} ${how}, so min_nodes ${minNodes} cannot be met.`, details)
}

/** `cut` is true if the search for a ring exceeded its budget. */
export function noCycle (
  request: PlanRequest, view: ClusterView, candidates: readonly CandidateNode[], cut: boolean
): Unplanned {
  const { card: { modelId }, instanceMeta, minNodes } = request
  const size = least(request)
  const shape = instanceMeta === 'LlamaRpc'
    ? `No node has live links both ways to ${size - 1} others`
    : `No cycle of ${size} or more nodes with live links both ways`
  const message = candidates.length < size
    ? `min_nodes is ${minNodes}, but ${count(candidates.length, 'node')} can run ${modelId}.`
    : `${shape} among the ${candidates.length} that can run ${modelId}` +
      `${cut ? ' was found; the search was cut short' : ''}.`
  return unplanned('no_connected_cycle', request, message, {
    minNodes, candidates: candidates.map(({ node }) => idOf(node)),
    oneWayLinks: oneWayLinks(candidates, view), searchCut: cut
  })
}

/** Links that are live in one direction only, which often explain an incomplete topology. */
function oneWayLinks (candidates: readonly CandidateNode[], view: ClusterView): ClusterView['edges'] {
  const ids = new Set(candidates.map(({ node }) => node.nodeId))
  const key = (from: string, to: string): string => JSON.stringify([from, to])
  const live = new Map(view.edges.map(({ from, to }) => [key(from, to), { from, to }]))
  return [...live].filter(([, { from, to }]) => ids.has(from) && ids.has(to) && !live.has(key(to, from)))
    .sort(([a], [b]) => compareText(a, b))
    .slice(0, ONE_WAY_MAX)
    .map(([, link]) => link)
}

export function noMemory (shortage: Shortage): Unplanned {
  const { job: { request }, nearest, candidates } = shortage
  const told = nearest.filter(({ candidate }) => !candidate.pending)
  const short = told.filter((member) => missingBytes(member) > 0)
  const shown = short.slice(0, NAMED_MAX).map(arithmetic).join('; ')
  const more = short.length > NAMED_MAX ? `; and ${short.length - NAMED_MAX} more` : ''
  const context = request.contextLength === undefined ? ''
    : ` Counted with a context of ${request.contextLength} tokens.`
  const best = nearest.length < candidates.length ? 'the nearest choice, ' : ''
  const message = `Model ${request.card.modelId} does not fit on ${best}${count(nearest.length, 'node')}: ` +
    `${shown}${more}.${context}`
  return {
    ...unplanned('insufficient_memory', request, message, {
      sharding: nearest.length === 1 ? 'Pipeline' : request.sharding, nodes: told.map(termsOf),
      candidates: candidates.map(({ node }) => idOf(node))
    }),
    shortage
  }
}

/** Bytes of memory that a node lacks, including the one byte by which the memory must exceed the need. */
export function missingBytes ({ held }: ArrangedNode): number {
  const used = held.length > 1 ? held.filter(({ layers }) => layers > 0) : held
  return used.reduce((sum, { need, usable }) =>
    sum + Math.max(0, need.neededBytes - usable.usableBytes + 1), 0)
}

/**
 * Text such as `attic: needs 13.20 GiB (weights 9.75 GiB + KV cache 0.27 GiB + …), has 11.90 GiB`; if GPU and
 * CPU share the part, one such figure for each.
 */
function arithmetic (member: ArrangedNode): string {
  const { candidate: { node }, need, option: { usable }, held } = member
  const memories = memoriesOf(held).map(({ memory, layers, neededBytes, usableBytes }) =>
    `${count(layers, 'layer')} on the ${memory === 'vram' ? 'GPU' : 'CPU'} need ${gib(neededBytes)}, ` +
    `there is ${gib(usableBytes)}`)
  if (memories.length > 0) return `${node.name}: ${memories.join(', and ')}`
  const [needs, has] = [gib(need.neededBytes), gib(usable.usableBytes)]
  const close = needs === has ? `, ${count(missingBytes(member), 'byte')} too few` : ''
  return `${node.name}: needs ${needs} (${needWords(need, gib)}), has ${has}${close}`
}

function termsOf (member: ArrangedNode): Record<string, unknown> {
  const { candidate: { node }, option: { backend, usable }, startLayer, endLayer, need, held } = member
  return {
    ...idOf(node), backend, startLayer, endLayer, ...need, ...usable, shortBytes: missingBytes(member),
    ...memoriesField(held)
  }
}

function idOf ({ nodeId, name }: NodeFacts): { nodeId: string, name: string } { return { nodeId, name } }

function named (nodes: readonly NodeFacts[]): string {
  const more = nodes.length > NAMED_MAX ? ` and ${nodes.length - NAMED_MAX} more` : ''
  return nodes.slice(0, NAMED_MAX).map(({ name }) => name).join(', ') + more
}

function count (n: number, what: string): string {
  return `${n} ${what}${n === 1 ? '' : 's'}`
}
