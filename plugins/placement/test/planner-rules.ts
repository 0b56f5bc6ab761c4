/**
 * A second implementation of the placement rules, independent of the planner's code. It uses exact arithmetic
 * and tries every group of nodes, so it suits small clusters only.
 */
import { cacheOf } from '../../runners/cards/memory-forecast.js'
import type { ClusterView, MemoryClaim, NodeFacts, Plan, PlanRequest } from '../planner/types.js'

/** Bytes of memory that a backend may use on the node. */
export function usableBytes (view: ClusterView, node: NodeFacts, backend: string): bigint {
  const onGpu = (name: string): boolean => name !== 'cpu' && node.gpus.length > 0
  const sum = (claims: readonly MemoryClaim[]): bigint => claims
    .filter((claim) => claim.nodeId === node.nodeId && onGpu(claim.backend) === onGpu(backend))
    .reduce((all, { bytes }) => all + BigInt(bytes), 0n)
  const back = sum(view.releasing)
  const total = BigInt(onGpu(backend) ? node.gpus[0]!.total : node.memory!.ramTotal)
  const limit = onGpu(backend) ? total * 9n / 10n : total * 3n / 4n
  const free = onGpu(backend) ? limit - BigInt(node.gpus[0]!.used) : BigInt(node.memory!.ramAvailable)
  const soon = free + back < limit ? free + back : limit
  return soon - sum(view.reservations)
}

/** True if `of / parts` of the model needs less than `bytes`, without rounding. */
export function fits (
  request: PlanRequest, view: ClusterView, of: number, parts: number, bytes: bigint
): boolean {
  const { card } = request
  const cache = BigInt(cacheOf(card, request.contextLength).bytes)
  const overhead = BigInt(Math.round((view.engines[card.engine]!.overhead ?? 1.3) * 100))
  const [share, whole] = [BigInt(of), BigInt(parts)]
  const model = BigInt(card.totalBytes) * overhead * share + cache * share * 100n
  const needed = model + 268_435_456n * whole * 100n
  return needed < bytes * whole * 100n
}

interface Eligible { node: NodeFacts, backends: string[] }

export function eligible (request: PlanRequest, view: ClusterView): Eligible[] {
  return view.nodes
    .filter((node) => node.participation === 'full' && node.memory !== null && node.backends !== null)
    .filter((node) => !request.excluded.includes(node.nodeId) && !request.excluded.includes(node.installId))
    .filter(({ drained }) => drained !== true)
    .filter(({ lacks = [] }) => !lacks.includes(request.card.engine))
    .map((node) => ({
      node,
      backends: (node.backends![request.card.engine] ?? []).filter((b) => request.card.backends.includes(b))
    }))
    .filter(({ backends }) => backends.length > 0)
}

export function linked (view: ClusterView, a: string, b: string): boolean {
  const has = (x: string, y: string): boolean => view.edges.some(({ from, to }) => from === x && to === y)
  return has(a, b) && has(b, a)
}

function connected (request: PlanRequest, view: ClusterView, ids: readonly string[]): boolean {
  if (ids.length === 1) return true
  if (request.instanceMeta === 'LlamaRpc') return ids.slice(1).every((id) => linked(view, ids[0]!, id))
  return ids.every((id, i) => linked(view, id, ids[(i + 1) % ids.length]!))
}

function allowsSize (request: PlanRequest, view: ClusterView, size: number): boolean {
  const { card, sharding, minNodes, instanceMeta } = request
  const traits = view.engines[card.engine]!
  if (sharding === 'Tensor' && !(card.supportsTensor && traits.tensor)) return false
  if (size < minNodes) return false
  if (size === 1) return true
  if (!traits.multiNode || traits.meta !== instanceMeta) return false
  if (sharding === 'Pipeline') return size <= card.nLayers
  return [card.heads, card.kvHeads, card.hiddenSize].every((n) => n > 0 && n % size === 0)
}

/**
 * The smallest number of nodes that satisfies the request, with the largest possible context, found by trying
 * all groups; null if no group satisfies it.
 */
export function fewestNodes (request: PlanRequest, view: ClusterView, checkMemory: boolean): number | null {
  return [8192, 4096, 2048].reduce<number | null>((found, contextLength) =>
    found ?? fewestWith({ contextLength, ...request }, view, checkMemory), null)
}

function fewestWith (request: PlanRequest, view: ClusterView, checkMemory: boolean): number | null {
  const pool = eligible(request, view)
  for (let size = 1; size <= pool.length; size++) {
    if (!allowsSize(request, view, size)) continue
    for (const group of orders(pool, size)) {
      if (!connected(request, view, group.map(({ node }) => node.nodeId))) continue
      if (!checkMemory || request.force || holds(request, view, group)) return size
    }
  }
  return null
}

function holds (request: PlanRequest, view: ClusterView, group: readonly Eligible[]): boolean {
  const layers = Math.max(1, request.card.nLayers)
  const most = ({ node, backends }: Eligible, fit: (bytes: bigint) => number): number =>
    Math.max(...backends.map((backend) => fit(usableBytes(view, node, backend))))
  if (request.sharding === 'Tensor' && group.length > 1) {
    const even = (bytes: bigint): number => fits(request, view, 1, group.length, bytes) ? 1 : 0
    return group.every((one) => most(one, even) === 1)
  }
  const counts = group.map((one) => most(one, (bytes) => {
    let n = 0
    while (n < layers && fits(request, view, n + 1, layers, bytes)) n++
    return n
  }))
  return counts.every((n) => n >= 1) && counts.reduce((a, b) => a + b, 0) >= layers
}

function * orders<T> (pool: readonly T[], size: number): Generator<T[]> {
  if (size === 0) yield []
  else {
    for (const one of pool) {
      for (const rest of orders(pool.filter((x) => x !== one), size - 1)) yield [one, ...rest]
    }
  }
}

/** Lists the rules that an accepted plan violates. */
export function breaches (asked: PlanRequest, view: ClusterView, plan: Plan): string[] {
  const request = { ...asked, contextLength: plan.contextLength }
  const { card } = request
  const size = plan.ranks.length
  const pool = new Map(eligible(request, view).map((one) => [one.node.nodeId, one]))
  const wrong: string[] = []
  const check = (holds: boolean, what: string): void => { if (!holds) wrong.push(what) }
  check(new Set(plan.ranks.map(({ nodeId }) => nodeId)).size === size, 'a node twice')
  check(allowsSize(request, view, size), `${size} nodes`)
  check(plan.sharding === (size === 1 ? 'Pipeline' : request.sharding), 'sharding')
  check(plan.instanceMeta === (size === 1 ? 'Ring' : request.instanceMeta), 'meta')
  check(connected(request, view, plan.ranks.map(({ nodeId }) => nodeId)), 'not connected')
  let layer = 0
  for (const rank of plan.ranks) {
    const one = pool.get(rank.nodeId)
    if (one === undefined) return [...wrong, `${rank.nodeId} may not take part`]
    check(one.backends.includes(rank.backend), `${rank.nodeId} has no ${rank.backend}`)
    const tensor = plan.sharding === 'Tensor'
    check(rank.startLayer === (tensor ? 0 : layer), `${rank.nodeId} starts at ${rank.startLayer}`)
    layer = rank.endLayer
    const of = tensor ? 1 : Math.max(card.nLayers === 0 ? 1 : 0, rank.endLayer - rank.startLayer)
    const parts = tensor ? size : Math.max(1, card.nLayers)
    check(of >= 1, `${rank.nodeId} has no layer`)
    const usable = usableBytes(view, one.node, rank.backend)
    const clamped = usable < 0n ? 0n : usable
    check(BigInt(rank.usableBytes) === clamped, `${rank.nodeId} usable ${rank.usableBytes}, not ${usable}`)
    check(rank.freeAfterBytes === rank.usableBytes - rank.neededBytes, `${rank.nodeId} free after`)
    check(Math.abs(rank.shareBytes - card.totalBytes * of / parts) <= 1, `${rank.nodeId} share`)
    check(request.force || fits(request, view, of, parts, usable), `${rank.nodeId} does not fit`)
    check(request.force || rank.neededBytes < rank.usableBytes, `${rank.nodeId} equal or more`)
  }
  check(layer === card.nLayers, `ends at layer ${layer}`)
  return [...wrong, ...disproportion(request, view, plan)]
}

/** Pipeline ranks that are a layer or more off their proportional share, if every rank can hold its share. */
function disproportion (request: PlanRequest, view: ClusterView, { sharding, ranks }: Plan): string[] {
  const { nLayers } = request.card
  const total = ranks.reduce((sum, { usableBytes }) => sum + usableBytes, 0)
  if (sharding === 'Tensor' || total === 0) return []
  const due = ranks.map(({ usableBytes }) => nLayers * usableBytes / total)
  const free = due.every((layers, i) => layers >= 1 && (request.force ||
    fits(request, view, Math.ceil(layers), nLayers, BigInt(ranks[i]!.usableBytes))))
  return free
    ? ranks.filter(({ startLayer, endLayer }, i) => Math.abs(endLayer - startLayer - due[i]!) >= 1)
        .map(({ nodeId }) => `${nodeId} is out of proportion`)
    : []
}
