import { defineService, kernelError } from '../../kernel/index.js'
import { errors } from './declarations.js'
import type { fetchModel } from './cli/pull.js'
import type { ModelCard, NodeView, SvcError } from '../../kernel/index.js'
import type { Availability } from './cards/model-list.js'
import type { Answers } from './routes.js'
import type { DownloadView } from './transfer/job.js'
import type { ClusterCopy, LocalCopy } from './types.js'

export type { Folder } from './cards/folder.js'
export type { CardReader, ModelFacts } from './cards/found.js'
export type { Availability } from './cards/model-list.js'
export type { DownloadView } from './transfer/job.js'
export { anthropicFailure, isAnthropic, ollamaFailure, openAiFailure } from './failures.js'
export { listRank, takesTools } from './cards/model-list.js'
export { locationsText } from './cli/api.js'
export { readModelOrPath } from './cli/source.js'
export type { NamedModel } from './cli/source.js'

export type CardOrigin = 'bundled' | 'store' | 'staged' | 'custom'

/** A complete copy of a model on this node. */
export type LocatedModel = Pick<LocalCopy, 'card' | 'directory' | 'kind'>

export type ModelCopy = Pick<ClusterCopy, 'nodeId' | 'nodeName' | 'kind' | 'live'>

/** An alias for a model. */
export interface ModelAlias { id: string, root: string }

/** Takes a snapshot of the cluster; the returned function uses it to tell whether a model can run. */
export type AvailabilityReader = () => Promise<(modelId: string) => Availability>

/**
 * Whether a model fits in the cluster's memory. Counts context memory only for a downloaded model. `nodes`
 * would run it, `problem` says why it does not fit, `engineMissing` is a program for `svc engine add`.
 */
export type MemoryFit = NonNullable<Answers['plan']['memory']>

export interface NodeProblem { nodeId: string, message: string }

/** Checks whether a model fits in the memory that is free now; null if that is unknown. */
export type MemoryPlanner = (format: 'gguf' | 'onnx', totalBytes: number, modelId: string) => MemoryFit | null

/** The error for downloading or placing a virtual model. */
export function virtualModel (modelId: string): SvcError {
  const message = `${modelId} is a virtual model of every node: it has no files and cannot be placed.`
  return kernelError('invalid_request', message,
    { param: 'model_id', remedy: `Use it directly: \`svc run ${modelId} "is everything fine?"\`.` })
}

/** The remedy of a store error, which other messages repeat. */
export const storeRemedy = (reason: 'store_not_configured' | 'store_unreachable'): string =>
  errors[reason].remedy

export interface Models {
  readonly opened: Promise<void>
  /** The complete local copy, with this digest if given; undefined before `opened`. */
  locate (modelId: string, digest?: string): LocatedModel | undefined
  /** Digest of the version to place: the store's, else a copy's; null if unknown or for bundled models. */
  digest (modelId: string): string | null
  located (): readonly LocatedModel[]
  /** The card of any model in the catalogue; `files` may be empty without a local copy. */
  card (modelId: string): ModelCard | undefined
  /** Bytes of the model's copies in the whole cluster by node id, without copies in stores. */
  stagedBytes (modelId: string): ReadonlyMap<string, number>
  copies (modelId: string): readonly ModelCopy[]
  /** The copies of all models, by model id. */
  allCopies (): ReadonlyMap<string, readonly ModelCopy[]>
  /** Which of the given nodes have too little disk space for copies of the model, with the numbers. */
  withoutRoom (modelId: string, nodeIds: readonly string[]): Promise<readonly NodeProblem[]>
  /** Adds to the model list whether each model can run. Returns a function that undoes it. */
  judge (judge: AvailabilityReader): () => void
  /** Adds the memory check to download plans. Returns a function that undoes it. */
  memory (planner: MemoryPlanner): () => void
  /** Adds virtual models to the list. Returns a function that undoes it. */
  virtual (cards: () => readonly ModelCard[]): () => void
  /** Lists placed models even if their store is unreachable. Returns a function that undoes it. */
  placed (cards: () => readonly ModelCard[]): () => void
  isVirtual (modelId: string): boolean
  /** Adds aliases to GET /v1/models. Returns a function that undoes it. */
  names (names: () => readonly ModelAlias[]): () => void
  transfers (): Readonly<Record<string, readonly DownloadView[]>>
  /** The store host, if its contents are unknown because it is down or has just come back. */
  silentStore (): NodeView | undefined
  cards (): readonly { card: ModelCard, origin: CardOrigin }[]
  /**
   * Protects the model and its companions from eviction and purge, and the copy with this digest from being
   * replaced, until the returned function is called. `by` names the user in messages. Throws `model_going`
   * while the model is being removed.
   */
  use (modelId: string, by: string, digest?: string): () => void
  serving (modelId: string, ready: boolean): void
  /** Resolves with a complete local copy, with this digest if given; stages it if necessary. */
  ensure (modelId: string, digest?: string, signal?: AbortSignal): Promise<LocatedModel>
}
export const ModelsService = defineService<Models>('models')

/** Loads the function that other plugins' commands use to download a model. */
export const modelFetcher = async (): Promise<typeof fetchModel> => (await import('./cli/pull.js')).fetchModel
