import { fileURLToPath } from 'node:url'
import type { Clock, Logger, ModelCard } from '../../../kernel/index.js'
import type { ModelRoot } from '../files/root.js'
import type { HubClient } from '../hub/types.js'
import type { CopyRecord, ModelManifest, Progress } from '../types.js'

/** A model the store has. */
export interface StoreEntry {
  modelId: string
  directory: string
  record: CopyRecord
  totalBytes: number
  /** ISO-8601. */
  downloadedAt: string
}

/** How far a download is. */
export interface DownloadStatus {
  modelId: string
  status: 'pending' | 'downloading' | 'paused' | 'complete' | 'failed' | 'cancelled' | 'not_found'
  /** 0 to 1; never goes back while a download runs. */
  progress: number
  /** Why it failed, for people. */
  error: string | null
  /** Why it failed, one word. */
  reason: string | null
  downloadedBytes: number
  /** 0 while it is not known yet. */
  totalBytes: number
  /** Over the last 10 seconds. */
  bytesPerSecond: number
  /** Milliseconds still to go at that rate; null when it is not known. */
  etaMs: number | null
  /** `hub`, `file:///…`, `node:<installId>`; what the copy says of itself when there is no download. */
  source: string | null
  /** The commit once it is known; before that what was asked for. */
  revision: string | null
  /** ISO-8601. */
  startedAt: string | null
}

/** A download that was started. */
export interface Job {
  readonly modelId: string
  /** Settles when it is complete, failed, paused or cancelled, or when the store closes. Never rejects. */
  readonly done: Promise<DownloadStatus>
  status (): DownloadStatus
}

/** What to fetch and from where. */
export interface StartOptions {
  /** `hub` (the default), `file:///absolute/folder` or `node:<installId>`. */
  source?: string
  /** Branch, tag or commit at the hub; for other sources a word to keep with the copy. */
  revision?: string
  /** Patterns of files to take instead of the usual choice. */
  allow?: readonly string[]
  /** Which of several quantizations to take, e.g. `q4`. */
  variant?: string
}

/** A folder in the store that is not offered, and why. */
export interface StoreProblem { modelId: string, problem: string }

/** Finds out from its files what a model is. Rejects with a sentence when it cannot. */
export type Derive = (folder: string, about: {
  modelId: string
  revision: string
  files: { path: string, size: number, sha256?: string }[]
  licence?: string
  languages?: string[]
}) => Promise<ModelCard>

/** Lets transfers begin one at a time and only where they fit; rejects before `run` when one does not. */
export type Admit = <T>(
  job: { modelId: string, totalBytes: number, resumableBytes: number }, run: () => Promise<T>
) => Promise<T>

/**
 * Fetches a model from another node into `folder`, which may hold what an earlier try left there. It calls
 * `admit` with the size once it knows it and transfers inside of it.
 */
export type FromNode = (
  modelId: string, installId: string, folder: string, signal: AbortSignal,
  progress: (progress: Progress) => void, admit: <T>(totalBytes: number, run: () => Promise<T>) => Promise<T>
) => Promise<ModelManifest>

/** What the store is made of. */
export interface StoreOptions {
  root: ModelRoot
  clock: Clock
  /** 0 to 1, for jittered pauses. */
  random: () => number
  /** Null where no public hub may be asked. */
  hub: HubClient | null
  derive: Derive
  admit: Admit
  /** Awaited now and then during a hub download with the bytes to go; rejects to stop it. */
  space?: (bytesToGo: number) => Promise<void>
  /** Absent where there are no other nodes. */
  fromNode?: FromNode
  log: Logger
  /** Called when a model comes, goes, or its download gets on (at most twice a second for progress). */
  onChange?: (modelId: string) => void
}

/** What the store could not do. `reason` is a stable word, the message a sentence for people. */
export class StoreError extends Error {
  override name = 'StoreError'
  readonly reason: string

  constructor (reason: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.reason = reason
  }
}

/** Reasons for error codes of the file system. */
const CODES: Record<string, string> = {
  ENOSPC: 'disk_full', EDQUOT: 'disk_full', EROFS: 'unwritable', EACCES: 'unwritable', EPERM: 'unwritable'
}

/** Reasons for errors about the files of a model. */
const NAMES: Record<string, string> = { PathError: 'bad_path', ManifestError: 'bad_manifest' }

/**
 * Any failure as a StoreError. An error that has a `reason` of its own (of the hub, of a transfer, of
 * admission) keeps it and its sentence; one of the file system gets the reason for its code. Pure.
 */
export function asStoreError (error: unknown): StoreError {
  if (error instanceof StoreError) return error
  const { reason, code, name, message } = (error ?? {}) as Record<string, unknown>
  const text = typeof message === 'string' && message !== '' ? message : String(error)
  if (typeof reason === 'string') return new StoreError(reason, text, { cause: error })
  const known = CODES[String(code)] ?? NAMES[String(name)]
  return new StoreError(known ?? 'internal', text, { cause: error })
}

/** Where a model is to come from. */
export type Source =
  | { kind: 'hub' }
  | { kind: 'file', path: string }
  | { kind: 'node', installId: string }

const INSTALL_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

/**
 * Reads a source as users write it: `hub`, `file:///absolute/folder`, `node:<installId>`. Throws
 * StoreError `bad_source`. Pure.
 */
export function parseSource (text: string): Source {
  if (text === 'hub') return { kind: 'hub' }
  if (text.startsWith('node:') && INSTALL_ID.test(text.slice(5))) {
    return { kind: 'node', installId: text.slice(5) }
  }
  const path = text.startsWith('file:///') ? pathOf(text) : undefined
  if (path !== undefined) return { kind: 'file', path }
  throw new StoreError('bad_source', `${JSON.stringify(text.slice(0, 200))} is no source of models; ` +
    'give hub, file:///absolute/folder or node:<install id>')
}

/** The path of a file URL; undefined when it is none (bad escapes, a NUL, an escaped slash). */
function pathOf (url: string): string | undefined {
  try {
    const path = fileURLToPath(url)
    return path.includes('\0') ? undefined : path
  } catch {
    return undefined
  }
}
