import type { LibraryDecl, MemoryTraits, ModelCard } from '../../../kernel/index.js'
import type { Need } from '../../runners/cards/memory-forecast.js'

/** How a model is cut: by layers, or every layer across all ranks. */
export type Sharding = 'Pipeline' | 'Tensor'
/** How the ranks of an instance talk: in a ring, or a driver with its donors. */
export type InstanceMeta = 'Ring' | 'LlamaRpc'

export interface PlanRequest {
  card: ModelCard
  /** Tokens of context; as many as there is memory for when left out. */
  contextLength?: number | undefined
  /** Answers at once; as many as there is memory for when left out. */
  slots?: number | undefined
  sharding: Sharding
  instanceMeta: InstanceMeta
  /** At least this many nodes; 1 or less means any number. */
  minNodes: number
  /** Node ids or install ids that must not take part; unknown ones are ignored. */
  excluded: readonly string[]
  /** Memory is not checked. Everything else is. */
  force: boolean
}

/** One node, as its own reports say; null is "not told yet". Bytes. */
export interface NodeFacts {
  nodeId: string
  installId: string
  name: string
  memory: { ramTotal: number, ramAvailable: number } | null
  /** Memory of each GPU; empty where none is known, then GPU backends are counted against the RAM. */
  gpus: readonly { total: number, used: number }[]
  /** Engine name to the backends this node can run it on. */
  backends: Readonly<Record<string, readonly string[]>> | null
  /** Engines whose external program is not there. */
  lacks?: readonly string[]
  /** Engines that run on a library there, in place of their program. */
  onLibrary?: readonly string[]
  /** Model id to the bytes of it that lie on this node already. */
  stagedBytes: ReadonlyMap<string, number>
  /** Only `full` nodes run models. */
  participation: 'full' | 'management' | null
  /** False where its operator does not let it share a model with others as LlamaRpc. */
  lends: boolean
  /** It publishes no readings: there is no use in waiting for them. */
  silent?: boolean
  drained?: boolean
}

export interface EngineTraits extends MemoryTraits {
  multiNode: boolean
  meta: InstanceMeta
  tensor: boolean
  /** Tensor ranks need not be even. */
  unevenTensor?: boolean
  /** It uses all GPUs of a node, and its RAM for what they cannot hold; else the first GPU only. */
  manyDevices?: boolean
  /** Best first. */
  backends: readonly string[]
  /** It keeps a context for each answer at once; the most on a CPU and on GPUs. */
  slots?: { readonly cpu: number, readonly gpu: number } | undefined
  /** Why a card does not run on it; null if it does. */
  refuses?: ((card: ModelCard) => string | null) | undefined
  /** What `svc engine add` brings its program as, where it drives one. */
  builds?: string | undefined
  library?: LibraryDecl | undefined
}

/**
 * Memory of one node that is spoken for, or about to come back. `backend` says which memory: the RAM for
 * `cpu`, else that of the GPU with the number `gpu`, the first where it is left out.
 */
export interface MemoryClaim { nodeId: string, backend: string, gpu?: number, bytes: number }

export interface InstanceMemory { instanceId: string, modelId: string, memory: readonly MemoryClaim[] }

/** A live connection in one direction, as it was measured last; null or absent before that. */
export interface Edge {
  from: string
  to: string
  rttMs?: number | null
  bytesPerSecond?: number | null
}

/** Everything the planner may know of the cluster. Node ids are unique. */
export interface ClusterView {
  nodes: readonly NodeFacts[]
  /** Live connections, one entry per direction. */
  edges: readonly Edge[]
  engines: Readonly<Record<string, EngineTraits>>
  /** Placed, but not loaded yet: not in the memory readings. */
  reservations: readonly MemoryClaim[]
  /** Being given back: still in the memory readings. */
  releasing: readonly MemoryClaim[]
  /** Running instances, for the suggestion to stop one. */
  instances: readonly InstanceMemory[]
}

/** The part of the model one node is given. Layers are half open; a tensor rank has all of them. */
export interface PlanRank extends Need {
  nodeId: string
  backend: string
  startLayer: number
  endLayer: number
  /** Layers on each GPU of the node where several devices share the part; the rest are on its CPU. */
  gpuLayers?: readonly number[]
  /** Where GPUs and the CPU share the part: what each of the two memories holds. The sums are of both. */
  memories?: readonly MemoryPart[]
  usableBytes: number
  /** Below zero only when forced. */
  freeAfterBytes: number
}

export interface MemoryPart {
  memory: 'vram' | 'ram'
  layers: number
  shareBytes: number
  neededBytes: number
  usableBytes: number
}

export interface Plan {
  sharding: Sharding
  instanceMeta: InstanceMeta
  contextLength: number
  /** Answers at once, each with its context; absent for an engine without slots. */
  slots?: number
  /** In ring order; of `LlamaRpc` the driver first. */
  ranks: PlanRank[]
  /** Bytes of the model that lie on the chosen nodes already. */
  stagedBytes: number
  /** One sentence: why these nodes. */
  why: string
}

/**
 * Why nothing was planned, the most basic first. `info_pending` is last: nothing else stands in the way,
 * if the nodes that have not told yet turn out to have enough.
 */
export const REFUSALS = [
  'tensor_unsupported', 'too_few_layers', 'no_backend', 'engine_missing', 'nodes_drained',
  'exclusions_removed_all', 'spread_unsupported', 'tensor_indivisible', 'no_connected_cycle',
  'insufficient_memory', 'info_pending'
] as const
export type RefusalReason = typeof REFUSALS[number]

/** A change of the request or the cluster after which the same request is planned. */
export type Change =
  | { kind: 'sharding', sharding: Sharding }
  | { kind: 'instance_meta', instanceMeta: InstanceMeta }
  | { kind: 'context_length', contextLength: number }
  | { kind: 'min_nodes', minNodes: number }
  | { kind: 'free', nodeId: string, backend: string, bytes: number }
  | { kind: 'stop', instanceId: string }
  | { kind: 'include', nodeIds: string[] }
  | { kind: 'undrain', nodeIds: string[] }
/** A change and how to say it after "it would be possible to". */
export type Suggestion = Change & { text: string }

/** Why not. `details` is plain JSON in bytes; see the functions of refusals.ts. */
export interface Refusal {
  ok: false
  reason: RefusalReason
  message: string
  details: Record<string, unknown> & { suggestions: Suggestion[] }
  /** Of `info_pending`: the nodes that have not told enough yet. */
  pendingNodes?: string[]
}
export interface Planned { ok: true, plan: Plan }
export type PlanResult = Planned | Refusal
