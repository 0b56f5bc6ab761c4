import type { FromSchema, ModelCard } from '../../kernel/index.js'
import type { sections } from './declarations.js'
import type { Answers } from './routes.js'

/** Bytes of a chunk: files are hashed, fetched and verified in such pieces. */
export const CHUNK_BYTES = 16 * 1024 * 1024

/** A file of a model. Hashes are lowercase hex. A file of 0 bytes has no chunks. */
export interface ManifestFile { path: string, size: number, sha256: string, chunkSha256: string[] }

export interface ModelManifest {
  modelId: string
  /** What it was pulled as: a commit of a hub, or a word of the operator. */
  revision: string
  totalBytes: number
  chunkBytes: number
  files: ManifestFile[]
}

/** What a model consists of, and what it is. `digest` is that of the manifest. */
export interface ModelContent { manifest: ModelManifest, digest: string, card: ModelCard }

/** Which files of a model were taken from the hub: patterns, a variant, or the usual choice. */
export interface HubChoice { allow: string[] | null, variant: string | null }

export interface CopyRecord {
  manifest: ModelManifest
  card: ModelCard
  /** Its origin: `hub:URL@COMMIT`, `file`, `store`, `node`, `package`. */
  source: string
  /** Of a copy from the hub: what else its files can be had by. */
  choice?: HubChoice
  /** ISO-8601. */
  publishedAt: string
}

export interface Copy {
  modelId: string
  directory: string
  sizeBytes: number
  /** What removing it gives back: a file with further hard links, or that svc did not write, counts 0. */
  freeableBytes: number
  lastUsedMs: number
  /** Null for a folder without a valid record. */
  record: CopyRecord | null
  /** Whether it has a record of svc's: only then anything of it is ever removed. */
  ours: boolean
}

/**
 * The purpose of a folder of models. Other nodes copy from `store`; runners load from `staged`. `beside` has
 * newer versions while those in `staged` are in use, `cache` the hub's files if no store was reachable.
 */
export type Role = 'store' | 'staged' | 'beside' | 'cache'

/** A complete copy on this node: in one of its folders, or in a package that it ships with (`bundled`). */
export interface LocalCopy extends ModelContent, Pick<CopyRecord, 'source' | 'choice'> {
  modelId: string
  /** Absolute; read-only to whoever loads from it. */
  directory: string
  kind: CopyEntry['kind'] | 'store'
  /** ISO-8601. */
  downloadedAt: string
}

/** What a node says of a copy it has (section `modelCopies`). */
export type CopyEntry = FromSchema<typeof sections.modelCopies.value>

/** What a store host says of a model in its store (section `storeModels`). */
export interface StoreEntryFact {
  digest: string
  revision: string
  totalBytes: number
  source: string
  choice?: HubChoice
  downloadedAt: string
  bundled: boolean
  /** Without its files. */
  card: ModelCard
}

export type ClusterCopy = Answers['copies']['copies'][number]

export interface Progress { bytes: number, totalBytes: number, files: number, totalFiles: number }

/** What could not be done with a model. `reason` is a stable word, the message a sentence for people. */
export class StoreError extends Error {
  override name = 'StoreError'
  readonly reason: string

  constructor (reason: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}
