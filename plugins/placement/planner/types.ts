import type { LibraryDecl, MemoryTraits, ModelCard } from '../../../kernel/index.js'
import type { Need } from '../../runners/cards/memory-forecast.js'

/** Split by layers, or every layer across all ranks. */
export type Sharding = 'Pipeline' | 'Tensor'
/** Ranks communicate in a ring, or a driver with its donors. */
export type InstanceMeta = 'Ring' | 'LlamaRpc'

export interface PlanRequest {
  card: ModelCard
  /** Tokens; default: as many as fit in memory. */
  contextLength?: number | undefined
  /** Concurrent requests; default: as many as fit in memory. */
  slots?: number | undefined
  sharding: Sharding
  instanceMeta: InstanceMeta
  /** Minimum number of nodes; 1 or less means any. */
  minNodes: number
  /** Node ids or install ids; unknown ones are ignored. */
  excluded: readonly string[]
  /** Skips the memory check, but no other check. */
  force: boolean
}

/** Readings of one node; null if not reported yet. Bytes. */
export interface NodeFacts {
  nodeId: string
  installId: string
  name: string
  memory: { ramTotal: number, ramAvailable: number } | null
  /** Memory of each GPU; empty if unknown, and GPU backends then count against RAM. */
  gpus: readonly { total: number, used: number }[]
  /** Engine name to its usable backends on this node. */
  backends: Readonly<Record<string, readonly string[]>> | null
  /** Engines whose external program is missing. */
  lacks?: readonly string[]
  /** Engines that use a library instead of their program. */
  onLibrary?: readonly string[]
  /** Model id to its bytes on the disk of this node. */
  stagedBytes: ReadonlyMap<string, number>
  participation: 'full' | 'management' | null
  /** False if the operator does not allow sharing models with other nodes (LlamaRpc). */
  lends: boolean
  /** Publishes no readings, so waiting for them is pointless. */
  silent?: boolean
  drained?: boolean
}

export interface EngineTraits extends MemoryTraits {
  multiNode: boolean
  meta: InstanceMeta
  tensor: boolean
  unevenTensor?: boolean
  /** Uses all GPUs of a node and RAM for the rest; otherwise only the first GPU. */
  manyDevices?: boolean
  /** Best first. */
  backends: readonly string[]
  /** Most parallel contexts on a CPU and on GPUs. */
  slots?: { readonly cpu: number, readonly gpu: number } | undefined
  /** The reason why a card does not run on it, or null. */
  refuses?: ((card: ModelCard) => string | null) | undefined
  /** Name of its program in `svc engine add`, if it has one. */
  builds?: string | undefined
  library?: LibraryDecl | undefined
}

/**
 * Memory of one node that is reserved or about to be released: RAM for the backend `cpu`, otherwise the GPU
 * with index `gpu` (default 0).
 */
export interface MemoryClaim { nodeId: string, backend: string, gpu?: number, bytes: number }

export interface InstanceMemory { instanceId: string, modelId: string, memory: readonly MemoryClaim[] }

/** A live connection in one direction with its last measurements; null or absent before the first. */
export interface Edge {
  from: string
  to: string
  rttMs?: number | null
  bytesPerSecond?: number | null
}

/** All inputs of the planner. Node ids are unique. */
export interface ClusterView {
  nodes: readonly NodeFacts[]
  edges: readonly Edge[]
  engines: Readonly<Record<string, EngineTraits>>
  /** Placed but not loaded yet: not in the memory readings. */
  reservations: readonly MemoryClaim[]
  /** Being released: still in the memory readings. */
  releasing: readonly MemoryClaim[]
  instances: readonly InstanceMemory[]
}

/** The part of one node. Layers are a half-open range; a tensor rank has all of them. */
export interface PlanRank extends Need {
  nodeId: string
  backend: string
  startLayer: number
  endLayer: number
  /** Layers on each GPU if several devices share the part; the rest are on the CPU. */
  gpuLayers?: readonly number[]
  /** Set if GPU and CPU share the part: the figures of each. The rank's own figures are their sums. */
  memories?: readonly MemoryPart[]
  usableBytes: number
  /** Negative only if forced. */
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
  /** Concurrent requests, each with the full context; absent for an engine without slots. */
  slots?: number
  /** In ring order; for `LlamaRpc` the driver first. */
  ranks: PlanRank[]
  /** Bytes of the model already on the disks of the chosen nodes. */
  stagedBytes: number
  why: string
}

/**
 * Refusal reasons, most fundamental first. `info_pending` is last: the request would succeed if the pending
 * nodes turn out to have enough memory.
 */
export const REFUSALS = [
  'tensor_unsupported', 'too_few_layers', 'no_backend', 'engine_missing', 'nodes_drained',
  'exclusions_removed_all', 'spread_unsupported', 'tensor_indivisible', 'no_connected_cycle',
  'insufficient_memory', 'info_pending'
] as const
export type RefusalReason = typeof REFUSALS[number]

export type Change =
  | { kind: 'sharding', sharding: Sharding }
  | { kind: 'instance_meta', instanceMeta: InstanceMeta }
  | { kind: 'context_length', contextLength: number }
  | { kind: 'min_nodes', minNodes: number }
  | { kind: 'free', nodeId: string, backend: string, bytes: number }
  | { kind: 'stop', instanceId: string }
  | { kind: 'include', nodeIds: string[] }
  | { kind: 'undrain', nodeIds: string[] }
/** `text` completes "It can be placed if you …". */
export type Suggestion = Change & { text: string }

/** `details` is plain JSON in bytes; see refusals.ts. */
export interface Refusal {
  ok: false
  reason: RefusalReason
  message: string
  details: Record<string, unknown> & { suggestions: Suggestion[] }
  pendingNodes?: string[]
}
export interface Planned { ok: true, plan: Plan }
export type PlanResult = Planned | Refusal
