import type { Clock } from '../../../kernel/index.js'
import { StoreError } from '../types.js'
import type { ModelManifest, Progress } from '../types.js'
import type { ChunkTable } from './chunks.js'
import type { Supplier, Swarm } from './swarm.js'

/** Bytes of one file: `start` is the first, `end` the one after the last. */
export interface ByteRange { start: number, end: number }

/** A node that can give chunks of one model: the store, or another node that has some. */
export interface ChunkSource extends Supplier {
  /**
   * The bytes of a range of a file. Rejects with any error when it cannot. Ends when `signal` aborts. A
   * source that gives fewer or more bytes than asked for is at fault.
   */
  read (path: string, range: ByteRange, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>
}

/** Longest rest within a transfer, ms; for a longer one it ends, and waits outside of the disk's queue. */
export const LONG_WAIT_MS = 30_000

/** Times in ms, rates in bytes per second. */
export const DEFAULT_LIMITS = {
  /** Chunks in flight from one source; files below 1 MiB may use all of `parallel`. */
  perSource: 2,
  parallel: 6,
  /** Failures in a row after which a source counts as dead. */
  retries: 5,
  /** Wrong hashes of one chunk, over all sources, after which the transfer fails. */
  hashRetries: 3,
  connectMs: 15_000,
  idleMs: 20_000,
  floorBytesPerSecond: 64 * 1024,
  floorWindowMs: 60_000,
  /** The rest of a source after its first failure, doubled with each further one, jittered. */
  backoffMs: 500,
  backoffMaxMs: 30_000
}
export type TransferLimits = typeof DEFAULT_LIMITS

/** Files that are fetched as one chunk each, because their source knows a hash of the whole file only. */
export interface FileList {
  modelId: string
  totalBytes: number
  files: readonly { path: string, size: number }[]
  chunks: ChunkTable
}

export interface FetchOptions {
  /** A checked one (`checkManifest`), or files in whole. */
  manifest: ModelManifest | FileList
  /** The incoming folder; may hold bytes of an earlier, broken off transfer. Made when absent. */
  folder: string
  /** Asked again whenever there is room for another chunk. */
  sources: () => readonly ChunkSource[]
  /** Calls `fn` when sources come, go or hold more. */
  onSources?: (fn: () => void) => () => void
  /** What the other nodes hold; without it every source is taken as it says of itself. */
  swarm?: Swarm
  /** A chunk is verified and on disk; also called for each that was kept from an earlier transfer. */
  onChunk?: (chunk: number) => void
  /** A chunk is asked of the store now: what other nodes are to be told. */
  onTake?: (chunk: number) => void
  /** Bytes kept, verified or under way; falls when some of them were wrong. */
  onProgress?: (progress: Progress) => void
  /** Awaited every GiB (or `spaceEveryBytes`) of new bytes; what it throws ends the transfer. */
  space?: (bytesToGo: number) => Promise<void>
  spaceEveryBytes?: number
  clock: Clock
  random: () => number
  signal?: AbortSignal
  limits?: Partial<TransferLimits>
}

/** What a source did wrong. Unless it says more, the transfer goes on with another source, or tries again. */
export class SourceFault extends Error {
  /** One word for what is wrong; null where there is only the message. */
  readonly reason: string | null = null
  /** False where asking again cannot help: the transfer ends with this error. */
  get retryable (): boolean { return true }
  /** How long the source asks to be left alone, ms; null when it does not say. */
  readonly retryAfterMs: number | null = null
  /** Whether the source can only send a file from its first byte, so that what is here of it is of no use. */
  get startOver (): boolean { return false }

  constructor (message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'SourceFault'
  }
}

/** The error of a write to this disk as that of a transfer. */
export function diskError (error: unknown, where: string): StoreError {
  if (error instanceof StoreError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  const next = `${full ? 'free some space' : 'check the folder and its disk'}, then start it again`
  return new StoreError(full ? 'disk_full' : 'unwritable',
    `cannot write ${where}: ${message}; what was fetched is kept: ${next}`, { cause: error })
}
