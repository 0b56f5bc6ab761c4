import type { Clock } from '../../../kernel/index.js'
import { StoreError, type ModelManifest, type Progress } from '../types.js'
import type { ChunkTable } from './chunks.js'
import type { Supplier, Swarm } from './swarm.js'

/** A byte range of a file; `end` is exclusive. */
export interface ByteRange { start: number, end: number }

export interface ChunkSource extends Supplier {
  /** Reads a range; ends when `signal` aborts. Sending more or fewer bytes is a fault of the source. */
  read (path: string, range: ByteRange, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>
}

/** Longest pause in ms within a transfer; longer pauses happen outside the disk's queue. */
export const LONG_WAIT_MS = 30_000

/** Default transfer limits; times in ms, rates in bytes per second. */
export const DEFAULT_LIMITS = {
  /** Maximum chunks in flight from one source; chunks up to 1 MiB may use all of `parallel`. */
  perSource: 2,
  parallel: 6,
  /** Consecutive failures after which a source counts as dead. */
  retries: 5,
  /** Wrong hashes of one chunk, over all sources, after which the transfer fails. */
  hashRetries: 3,
  connectMs: 15_000,
  idleMs: 20_000,
  floorBytesPerSecond: 64 * 1024,
  floorWindowMs: 60_000,
  /** First pause after a failure; doubles with every later failure, with jitter. */
  backoffMs: 500,
  backoffMaxMs: 30_000
}
export type TransferLimits = typeof DEFAULT_LIMITS

/** Files that are one chunk each, because the source has only a hash of the complete file. */
export interface FileList {
  modelId: string
  totalBytes: number
  files: readonly { path: string, size: number }[]
  chunks: ChunkTable
}

export interface FetchOptions {
  /** A checked manifest (`checkManifest`), or a list of files. */
  manifest: ModelManifest | FileList
  /** The incoming folder; may hold bytes of an interrupted transfer. Created if missing. */
  folder: string
  /** The current sources; called again before each request. */
  sources: () => readonly ChunkSource[]
  /** Calls `fn` when sources appear, disappear or have more chunks. */
  onSources?: (fn: () => void) => () => void
  /** The chunks that other nodes have or fetch. Without it, only the sources' `has` is used. */
  swarm?: Swarm
  /** Called for each verified chunk on disk, including those of an earlier transfer. */
  onChunk?: (chunk: number) => void
  /** Called when a chunk is requested from the store, for an announcement to other nodes. */
  onTake?: (chunk: number) => void
  /** The reported progress counts unverified bytes, so it may decrease. */
  onProgress?: (progress: Progress) => void
  /** Awaited after every GiB (or `spaceEveryBytes`) of new bytes; an error ends the transfer. */
  space?: (bytesToGo: number) => Promise<void>
  spaceEveryBytes?: number, clock: Clock
  random: () => number
  signal?: AbortSignal, limits?: Partial<TransferLimits>
}

/** A fault of a source. By default the transfer retries or continues with another source. */
export class SourceFault extends Error {
  /** A one-word reason; null if there is only a message. */
  readonly reason: string | null = null
  /** False if a retry cannot help, in which case the transfer ends with this error. */
  get retryable (): boolean { return true }
  /** Pause in ms that the source requests; null if it does not request a pause. */
  readonly retryAfterMs: number | null = null
  /** Whether the source can send a file only from its first byte, so partial bytes are useless. */
  get startOver (): boolean { return false }

  constructor (message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'SourceFault'
  }
}

export function diskError (error: unknown, where: string): StoreError {
  if (error instanceof StoreError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === 'ENOSPC' || code === 'EDQUOT'
  const next = `${full ? 'free disk space' : 'check the folder and its disk'}, then start it again`
  return new StoreError(full ? 'disk_full' : 'unwritable',
    `cannot write ${where}: ${message}; downloaded bytes are kept: ${next}`, { cause: error })
}
