import type { ModelCard } from '../../../kernel/index.js'
import type {
  ClusterView, EngineTraits, MemoryClaim, NodeFacts, Plan, PlanRequest, PlanResult
} from '../planner/types.js'

export const MIB = 1024 ** 2
/** Size in bytes of the attention mask for the whole context on a GPU. */
export const MASK = 512 * 8192 * 6
export const GIB = 1024 ** 3

/** A language model of 10 GiB in 20 layers; without attention heads, it needs no memory for a cache. */
export function card (over: Partial<ModelCard> = {}): ModelCard {
  return {
    modelId: 'acme/x',
    revision: 'r1',
    title: 'x',
    description: '',
    tasks: ['chat'],
    family: 'llama',
    engine: 'lm',
    backends: ['cpu', 'cuda'],
    files: [],
    totalBytes: 10 * GIB,
    nLayers: 20,
    hiddenSize: 4096,
    heads: 0,
    kvHeads: 0,
    headSize: 0,
    contextLength: 8192,
    supportsTensor: false,
    companions: [],
    licence: 'MIT',
    languages: ['en'],
    quantization: null,
    voices: [],
    defaults: {},
    support: {},
    ...over
  }
}

/** A node without GPUs that has `gib` of available RAM and far more RAM in total. */
export function node (nodeId: string, gib: number, over: Partial<NodeFacts> = {}): NodeFacts {
  return {
    nodeId,
    installId: `install-${nodeId}`,
    name: nodeId,
    memory: { ramTotal: 1024 * GIB, ramAvailable: gib * GIB },
    gpus: [],
    backends: { lm: ['cpu'] },
    stagedBytes: new Map(),
    participation: 'full',
    lends: true,
    ...over
  }
}

export const lm: EngineTraits = {
  multiNode: true, meta: 'Ring', tensor: true, overhead: 1.3, backends: ['cuda', 'cpu']
}

export function view (nodes: readonly NodeFacts[], over: Partial<ClusterView> = {}): ClusterView {
  const none = { reservations: [], releasing: [], instances: [] }
  return { nodes, edges: mesh(nodes), engines: { lm }, ...none, ...over }
}

export function request (over: Partial<PlanRequest> = {}): PlanRequest {
  const shape = { sharding: 'Pipeline', instanceMeta: 'Ring', minNodes: 1 } as const
  return { card: card(), ...shape, excluded: [], force: false, ...over }
}

export function mesh (nodes: readonly NodeFacts[]): ClusterView['edges'] {
  return nodes.flatMap(({ nodeId: from }) =>
    nodes.flatMap(({ nodeId: to }) => from === to ? [] : [{ from, to }]))
}

export function links (...pairs: [string, string][]): ClusterView['edges'] {
  return pairs.flatMap(([a, b]) => [{ from: a, to: b }, { from: b, to: a }])
}

export function planned (result: PlanResult): Plan {
  if (!result.ok) throw new Error(`refused: ${result.reason}: ${result.message}`)
  return result.plan
}

export function refused (result: PlanResult): PlanResult & { ok: false } {
  if (result.ok) throw new Error(`planned: ${JSON.stringify(result.plan)}`)
  return result
}

export type Random = () => number

/** A deterministic generator of numbers in [0, 1). */
export function seeded (seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function oneOf<T> (random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)]!
}

export function shuffled<T> (random: Random, values: readonly T[]): T[] {
  const drawn = values.map((value) => ({ value, at: random() }))
  return drawn.sort((a, b) => a.at - b.at).map(({ value }) => value)
}

/** A random request and a random cluster of 0 to 5 nodes, which in some cases differ only in memory. */
export function someCase (random: Random): { request: PlanRequest, view: ClusterView } {
  const ids = Array.from({ length: oneOf(random, [0, 1, 2, 3, 4, 5, 5]) }, (_, i) => `n${i}`)
  const plain = random() < 0.2
  const nodes = ids.map((id) => plain ? node(id, Math.floor(2 + random() * 12)) : someNode(random, id))
  const dense = oneOf(random, [0.4, 0.8, 1, 1])
  return {
    request: {
      card: someCard(random),
      sharding: oneOf(random, ['Pipeline', 'Pipeline', 'Tensor']),
      instanceMeta: oneOf(random, ['Ring', 'Ring', 'Ring', 'LlamaRpc']),
      minNodes: oneOf(random, [0, 1, 1, 1, 2, 3, 4, 5, 5]),
      excluded: random() < 0.7 ? [] : oneOf(random, [['n0'], ['install-n1', 'nobody'], ids]),
      force: random() < 0.1,
      contextLength: oneOf(random, [undefined, 8192])
    },
    view: {
      nodes,
      edges: mesh(nodes).filter(() => random() < dense),
      engines: { lm: someTraits(random) },
      reservations: someClaims(random, ids),
      releasing: someClaims(random, ids),
      instances: [{ instanceId: 'i0', modelId: 'acme/y', memory: someClaims(random, ids) }]
    }
  }
}

function someCard (random: Random): ModelCard {
  const heads = oneOf(random, [0, 4, 6, 12])
  return card({
    totalBytes: Math.floor(random() * 12 * GIB),
    nLayers: oneOf(random, [0, 1, 2, 3, 7, 20, 20, 20]),
    heads,
    kvHeads: oneOf(random, [heads, heads / 2]),
    headSize: 64,
    hiddenSize: heads * 64,
    supportsTensor: random() < 0.8,
    backends: oneOf(random, [['cpu', 'cuda'], ['cpu', 'cuda'], ['cpu'], ['cuda'], ['cuda', 'odd']])
  })
}

function someTraits (random: Random): EngineTraits {
  return {
    multiNode: random() < 0.85,
    tensor: random() < 0.8,
    overhead: oneOf(random, [1.3, 1.1]),
    backends: oneOf(random, [['cuda', 'cpu'], ['cpu', 'cuda']]),
    meta: random() < 0.2 ? 'LlamaRpc' : 'Ring',
    builds: random() < 0.5 ? 'lm.cpp' : undefined
  }
}

function someNode (random: Random, id: string): NodeFacts {
  const ramTotal = Math.floor(random() * 20 * GIB)
  const ramAvailable = Math.floor(ramTotal * (0.3 + 0.7 * random()))
  const vram = { total: 8 * GIB, used: Math.floor(random() * 8 * GIB) }
  return node(id, 0, {
    memory: random() < 0.06 ? null : { ramTotal, ramAvailable },
    gpus: random() < 0.4 ? [vram] : [],
    backends: random() < 0.05
      ? null
      : { lm: oneOf(random, [['cpu'], ['cpu'], ['cpu', 'cuda'], ['cuda'], ['odd', 'cpu'], []]) },
    ...random() < 0.1 ? { lacks: ['lm'] } : {},
    drained: random() < 0.08,
    stagedBytes: new Map(random() < 0.3 ? [['acme/x', Math.floor(random() * 3) * GIB]] : []),
    participation: random() < 0.9 ? 'full' : oneOf(random, ['management', 'management', null])
  })
}

function someClaims (random: Random, ids: readonly string[]): MemoryClaim[] {
  return ids.filter(() => random() < 0.2).map((nodeId) =>
    ({ nodeId, backend: oneOf(random, ['cpu', 'cuda']), bytes: Math.floor(random() * 4 * GIB) }))
}
