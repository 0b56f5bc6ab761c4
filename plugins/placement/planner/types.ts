import type { LibraryDecl, MemoryTraits, ModelCard } from '../../../kernel/index.js'
import type { Need } from '../../runners/cards/memory-forecast.js'
import type { OfferedDriver } from '../../runners/service.js'

/** Whether each rank holds whole layers (Pipeline) or a part of every layer (Tensor). */
export type Sharding = 'Pipeline' | 'Tensor'
/** Whether the ranks form a ring, or one driver uses the memory of its donors. */
export type InstanceMeta = 'Ring' | 'LlamaRpc'

export interface PlanRequest {
  card: ModelCard
  /** Context length in tokens; by default as many as fit in memory. */
  contextLength?: number | undefined
  /** Limit on concurrent requests; by default, as many as memory allows. */
  slots?: number | undefined
  sharding: Sharding
  instanceMeta: InstanceMeta
  /** Minimum number of nodes; 1 or less sets no minimum. */
  minNodes: number
  /** Node ids or install ids; unknown ones are ignored. */
  excluded: readonly string[]
  /** Skips the memory check, but no other check. */
  force: boolean
}

/** Readings of one node in bytes; null if the node has not reported them yet. */
export interface NodeFacts {
  nodeId: string
  installId: string
  name: string
  memory: { ramTotal: number, ramAvailable: number } | null
  /** Memory of each GPU; empty if unknown, in which case GPU backends are planned with RAM. */
  gpus: readonly { total: number, used: number }[]
  /** Backends that work on this node, by engine name. */
  backends: Readonly<Record<string, readonly string[]>> | null
  /** Engines whose external program is missing. */
  lacks?: readonly string[]
  /** Names of usable programs, and bytes of their processes, of engines with several programs. */
  programs?: Readonly<Record<string, readonly string[]>>
  processBytes?: Readonly<Record<string, number>>
  /** How its programs run a model together with other nodes, by engine and program. */
  gangs?: Readonly<Record<string, NonNullable<OfferedDriver['gangs']>>>
  /** Why this node cannot run the model together with others. */
  apart?: string | undefined
  /** Engines that use a library instead of their program. */
  onLibrary?: readonly string[]
  /** Bytes of each model on the disk of this node, by model id. */
  stagedBytes: ReadonlyMap<string, number>
  participation: 'full' | 'management' | null
  /** False if the operator does not allow this node to share models with other nodes. */
  lends: boolean
  /** Bytes of RAM that all models on this node may use together, if its operator limits them. */
  ramBudget?: number | undefined
  /** True if the node publishes no readings, so waiting for readings is pointless. */
  silent?: boolean
  drained?: boolean
}

export interface EngineTraits extends MemoryTraits {
  multiNode: boolean
  meta: InstanceMeta
  tensor: boolean
  unevenTensor?: boolean
  onlyTensor?: boolean
  /** True if the engine can use all GPUs of a node and RAM; otherwise it uses only the first GPU. */
  manyDevices?: boolean
  /** Backends in order of preference, best first. */
  backends: readonly string[]
  /** Limits on contexts that run in parallel, for a CPU and for GPUs. */
  slots?: { readonly cpu: number, readonly gpu: number } | undefined
  /** Returns the reason why the engine cannot run the card's model; null if it can. */
  refuses?: ((card: ModelCard) => string | null) | undefined
  /** Name of the engine's program in `svc engine add`, if it has a program. */
  builds?: string | undefined
  /** The program's name, and how it is installed, if not by `svc engine add`. */
  program?: string | undefined
  install?: string | undefined
  library?: LibraryDecl | undefined
}

/**
 * Memory on a node that is reserved or is being released: RAM for the backend `cpu`, otherwise memory of the
 * GPU with index `gpu` (default 0). `instanceId`: the instance that reserves it.
 */
export interface MemoryClaim {
  nodeId: string, backend: string, gpu?: number, bytes: number, instanceId?: string
}

/** An instance; `memory` is empty until the readings include it. */
export interface InstanceMemory {
  instanceId: string, modelId: string, memory: readonly MemoryClaim[]
  /**
   * Seconds without a request; null while it must stay loaded, such as one that is `leaving` and has open
   * requests; absent if no request may unload it.
   */
  idleSeconds?: number | null | undefined
  /** True if a request placed it, not a person. */
  onDemand?: boolean
  /** True if it ends as soon as its requests have ended. */
  leaving?: boolean
}

/** A live connection in one direction, with its last measurements, which are null or absent at first. */
export interface Edge { from: string, to: string, rttMs?: number | null, bytesPerSecond?: number | null }

/** All inputs of the planner. Node ids are unique. */
export interface ClusterView {
  nodes: readonly NodeFacts[]
  edges: readonly Edge[]
  engines: Readonly<Record<string, EngineTraits>>
  /** Memory of instances that are placed but not loaded, which the readings do not include yet. */
  reservations: readonly MemoryClaim[]
  /** Memory that is being released, which the readings still include. */
  releasing: readonly MemoryClaim[]
  instances: readonly InstanceMemory[]
}

/** The part of the model on one node. Layers are a half-open range; a tensor rank has all of them. */
export interface PlanRank extends Need {
  nodeId: string
  backend: string
  startLayer: number
  endLayer: number
  /** Layers on each GPU if several devices share this rank; the remaining layers are on the CPU. */
  gpuLayers?: readonly number[]
  /** Separate memory figures for GPU and CPU if both share this rank; their sums are the rank's figures. */
  memories?: readonly MemoryPart[]
  usableBytes: number
  /** Bytes left after placement; negative only if the placement is forced. */
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
  /** Limit on concurrent requests, each with the full context; absent for an engine without slots. */
  slots?: number
  /** The ranks in ring order; with `LlamaRpc` the driver comes first. */
  ranks: PlanRank[]
  /** Bytes of the model already on the disks of the chosen nodes. */
  stagedBytes: number
  why: string
}

/**
 * Refusal reasons, most fundamental first. `info_pending` is last, because the request may still succeed if
 * the pending nodes turn out to have enough memory.
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
  | { kind: 'slots', slots: number }
  | { kind: 'min_nodes', minNodes: number }
  | { kind: 'free', nodeId: string, backend: string, bytes: number }
  | { kind: 'stop', instanceId: string }
  | { kind: 'include', nodeIds: string[] }
  | { kind: 'undrain', nodeIds: string[] }
/** `text` completes the sentence "It can be placed if you …". */
export type Suggestion = Change & { text: string }

/** `details` is plain JSON with sizes in bytes; refusals.ts lists its fields. */
export interface Refusal {
  ok: false
  reason: RefusalReason
  message: string
  details: Record<string, unknown> & { suggestions: Suggestion[] }
  pendingNodes?: string[]
}
export interface Planned { ok: true, plan: Plan }
export type PlanResult = Planned | Refusal
