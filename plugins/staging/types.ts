import type { FromSchema, ModelCard } from '../../kernel/index.js'
import type { sections } from './declarations.js'
import type { Answers } from './routes.js'

/** Bytes of a chunk, the unit of hashing, fetching and verification. */
export const CHUNK_BYTES = 16 * 1024 * 1024

/** Hashes are lowercase hex. An empty file has no chunks. */
export interface ManifestFile { path: string, size: number, sha256: string, chunkSha256: string[] }

export interface ModelManifest {
  modelId: string
  /** A hub commit or a string chosen by the operator. */
  revision: string
  totalBytes: number, chunkBytes: number, files: ManifestFile[]
}

/** A model's manifest and card; `digest` is the manifest's digest. */
export interface ModelContent { manifest: ModelManifest, digest: string, card: ModelCard }

/** How to select the hub's files; null means the default. */
export interface HubChoice { allow: string[] | null, variant: string | null }

export interface CopyRecord {
  manifest: ModelManifest
  card: ModelCard
  /** Origin: `hub:URL@COMMIT`, `file`, `store`, `node`, `package`. */
  source: string
  /** How files were selected from the hub, for later downloads; only for models from the hub. */
  choice?: HubChoice
  /** ISO-8601. */
  publishedAt: string
}

export interface Copy {
  modelId: string, directory: string, sizeBytes: number
  /** Bytes that removal frees, without files that have other hard links or that svc did not write. */
  freeableBytes: number
  lastUsedMs: number
  /** The copy's record; null for a folder without a valid record. */
  record: CopyRecord | null
  /** Whether svc wrote the copy's record; svc removes only such copies. */
  ours: boolean
}

/**
 * What a folder of models is for: other nodes copy from `store`, runners load from `staged`, `beside` has
 * newer versions of staged copies in use, `cache` has hub files fetched while no store was reachable.
 */
export type Role = 'store' | 'staged' | 'beside' | 'cache'

/** A complete copy on this node, in one of its folders or in a package (`bundled`). */
export interface LocalCopy extends ModelContent, Pick<CopyRecord, 'source' | 'choice'> {
  modelId: string
  /** Absolute path of the copy, which must not be modified. */
  directory: string
  kind: CopyEntry['kind'] | 'store'
  /** ISO-8601. */
  downloadedAt: string
}

export type CopyEntry = FromSchema<typeof sections.modelCopies.value>

/** The card is without the list of files. */
export type StoreEntryFact = Omit<FromSchema<typeof sections.storeModels.value>, 'choice' | 'card'> &
  { choice?: HubChoice, card: ModelCard }

export type ClusterCopy = Answers['copies']['copies'][number]

export interface Progress { bytes: number, totalBytes: number, files: number, totalFiles: number }

/** An error from the store; `reason` is a stable code, the message a sentence for the user. */
export class StoreError extends Error {
  override name = 'StoreError'
  readonly reason: string

  constructor (reason: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}
