import { defineService, kernelError } from '../../kernel/index.js'
import { errors } from './declarations.js'
import type { fetchModel } from './cli/pull.js'
import type { ModelCard, NodeView, SvcError } from '../../kernel/index.js'
import type { Availability } from './cards/model-list.js'
import type { DownloadView } from './transfer/job.js'
import type { ClusterCopy, LocalCopy } from './types.js'

export type { Folder } from './cards/folder.js'
export type { CardReader, ModelFacts } from './cards/found.js'
export type { Availability } from './cards/model-list.js'
export type { DownloadView } from './transfer/job.js'
export { anthropicFailure, isAnthropic, ollamaFailure, openAiFailure } from './failures.js'
export { takesTools } from './cards/model-list.js'
export { locationsText } from './cli/api.js'
export { readNamedModel } from './cli/source.js'
export type { NamedModel } from './cli/source.js'

/** Where the card of a model comes from; a later one counts more. */
export type CardOrigin = 'bundled' | 'store' | 'staged' | 'home' | 'custom'

/** A complete copy of a model on this node. */
export type LocatedModel = Pick<LocalCopy, 'card' | 'directory' | 'kind'>

export type ModelCopy = Pick<ClusterCopy, 'nodeId' | 'nodeName' | 'kind' | 'live'>

/** A further name by which clients ask a model. `madeMs`: ms since 1970; null: as old as the model. */
export interface ModelAlias { id: string, root: string, madeMs: number | null }

/** Looks at what is there once; the judgement of any model by that. */
export type AvailabilityReader = () => Promise<(modelId: string) => Availability>

/** Whether a model would fit into the memory of the cluster; of one that is not here without its context. */
export interface MemoryFit {
  neededBytes: number
  /** The nodes that would run it; none where it does not fit. */
  nodes: { name: string, neededBytes: number, usableBytes: number }[]
  /** Why it does not fit, with the sums. */
  problem: string | null
  /** The program that no node has which could run it, as `svc engine add` names it. */
  engineMissing: string | null
}

export interface NodeProblem { nodeId: string, message: string }

/** Looks at the memory as it is now; null where that is not known. */
export type MemoryPlanner =
  (format: 'gguf' | 'onnx', totalBytes: number, modelId: string) => MemoryFit | null

/** The refusal to fetch or place a model that the nodes answer for themselves. */
export function virtualModel (modelId: string): SvcError {
  const message = `${modelId} is answered by every node itself: it has no files and cannot be placed.`
  return kernelError('invalid_request', message,
    { param: 'model_id', remedy: `Ask it: \`svc run ${modelId} "is everything fine?"\`.` })
}

/** What to do about a store that is away, or that there is none: as the errors of those names say it. */
export const storeRemedy = (reason: 'store_not_configured' | 'store_unreachable'): string =>
  errors[reason].remedy

export interface Models {
  /** Resolves once the copies on this node are known. */
  readonly opened: Promise<void>
  /** The complete copy on this node, of that content if one is named; undefined also before `opened`. */
  locate (modelId: string, digest?: string): LocatedModel | undefined
  /**
   * The content that an instance of the model is to run which is placed now: what the store has, else a copy.
   * Null where nobody knows, and for what ships, which is a part of each node.
   */
  digest (modelId: string): string | null
  located (): readonly LocatedModel[]
  /** The card of any model of the catalogue, here or not; its `files` may be empty when it is not here. */
  card (modelId: string): ModelCard | undefined
  /** Bytes of the model's own copies by node id, over the whole cluster; those in stores are not copies. */
  stagedBytes (modelId: string): ReadonlyMap<string, number>
  copies (modelId: string): readonly ModelCopy[]
  /** The same of all models at once, by model id. */
  allCopies (): ReadonlyMap<string, readonly ModelCopy[]>
  /** Of these nodes, the ones on whose disks copies of the model do not fit, with the sums. */
  withoutRoom (modelId: string, nodeIds: readonly string[]): Promise<readonly NodeProblem[]>
  /** Has the list of models tell which of them can be asked. Returns what ends that. */
  judge (judge: AvailabilityReader): () => void
  /** Has plans of downloads tell whether the model would fit into memory. Returns what ends that. */
  memory (planner: MemoryPlanner): () => void
  /** Has the list of models name those that plugins answer for themselves. Returns what ends that. */
  virtual (cards: () => readonly ModelCard[]): () => void
  /** Adds placed models to the list, as their store may be unreachable. Returns a function that ends it. */
  placed (cards: () => readonly ModelCard[]): () => void
  isVirtual (modelId: string): boolean
  /** Has GET /v1/models list further names of models. Returns what ends that. */
  names (names: () => readonly ModelAlias[]): () => void
  /** Transfers of models by node id, as /state shows them under `downloads`. */
  transfers (): Readonly<Record<string, readonly DownloadView[]>>
  /** A store host of which nobody knows now what it has: it is away, or has only just come back. */
  silentStore (): NodeView | undefined
  cards (): readonly { card: ModelCard, origin: CardOrigin }[]
  /**
   * Protects the model and its companions from eviction and purge until the returned function is called, and
   * the content that is named from being replaced. `by` says who, for people. Throws `model_going` while it
   * is just being removed.
   */
  use (modelId: string, by: string, digest?: string): () => void
  /** Tells the cluster whether a runner of the model is ready on this node. */
  serving (modelId: string, ready: boolean): void
  /** Resolves with a complete copy here, of that content if one is named; staged when it is not there. */
  ensure (modelId: string, digest?: string, signal?: AbortSignal): Promise<LocatedModel>
}
export const ModelsService = defineService<Models>('models')

/** For verbs: brings a model that is not here into the store; see `fetchModel`. */
export const modelFetcher = async (): Promise<typeof fetchModel> =>
  (await import('./cli/pull.js')).fetchModel
