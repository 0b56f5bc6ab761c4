import { filePathProblem } from '../files/names.js'
import { putOwn, readOwn } from '../files/open.js'
import { MOST_FILES } from '../files/record.js'
import type { HubSelection } from '../hub/types.js'
import type { Failure, Job, JobState } from '../transfer/job.js'
import type { StoreEntry } from './types.js'

/** What was asked for. */
export interface DownloadRequest {
  /** `hub`, `file:///…` or `node:<installId>`. */
  source: string
  revision: string | null
  allow: string[] | null
  variant: string | null
}

/** A download into the store; `selection`: the exact files at the hub, once they are chosen. */
export type Download = Job<{ readonly request: DownloadRequest, selection: HubSelection | null }>

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

const STATUS: Record<JobState, DownloadStatus['status']> = {
  pending: 'pending', ongoing: 'downloading', completed: 'complete', failed: 'failed', paused: 'paused',
  cancelled: 'cancelled', closed: 'pending'
}

export function statusOf (job: Download): DownloadStatus {
  const { modelId, state, progress: { bytes, totalBytes }, ask: { request, selection } } = job
  const failure = state === 'failed' ? job.failure : null
  return {
    modelId,
    status: STATUS[state],
    progress: state === 'completed' ? 1 : totalBytes === 0 ? 0 : bytes / totalBytes,
    error: failure?.message ?? null,
    reason: failure?.reason ?? null,
    downloadedBytes: bytes,
    totalBytes,
    bytesPerSecond: job.bytesPerSecond,
    etaMs: job.etaMs,
    source: request.source,
    revision: selection?.commit ?? request.revision,
    startedAt: job.startedAt
  }
}

/** The status of a model without a download, which the store has or has not. */
export function statusOfEntry (modelId: string, entry: StoreEntry | undefined): DownloadStatus {
  const totalBytes = entry?.manifest.totalBytes ?? 0
  return {
    modelId,
    status: entry === undefined ? 'not_found' : 'complete',
    progress: entry === undefined ? 0 : 1,
    error: null,
    reason: null,
    downloadedBytes: totalBytes,
    totalBytes,
    bytesPerSecond: 0,
    etaMs: null,
    source: entry?.source ?? null,
    revision: entry?.manifest.revision ?? null,
    startedAt: null
  }
}

/** Whether a download goes on by itself when the store opens (`active`), or waits to be told. */
type RecordState = 'active' | 'paused' | 'cancelled' | 'failed'

/** A download as it is kept beside its bytes, so that it survives the process. */
export interface DownloadRecord extends DownloadRequest {
  format: 1
  state: RecordState
  /** Why it failed. */
  error: string | null
  reason: string | null
  /** ISO-8601. */
  startedAt: string
  totalBytes: number
  /** The exact files of one commit, chosen once: what changes upstream later does not mix in. */
  selection: HubSelection | null
}

const NAME = '.svc-job.json'
const MAX_BYTES = 64 * 1024 * 1024

/** Writes a download into its folder (made when absent); a crash leaves the old record or the new one. */
export async function writeDownload (
  folder: string, job: Download, state: RecordState, failure: Failure | null = null
): Promise<void> {
  const { ask: { request, selection }, startedAt, progress: { totalBytes } } = job
  const { message: error = null, reason = null } = failure ?? {}
  const about = { ...request, state, error, reason, startedAt, totalBytes, selection }
  const record: DownloadRecord = { format: 1, ...about }
  await putOwn(folder, NAME, async (file) => {
    await file.writeFile(JSON.stringify(record))
    await file.sync()
    await file.close()
  })
}

/** The download kept in a folder; undefined when there is none or when it is not whole. */
export async function readDownload (folder: string, modelId: string): Promise<DownloadRecord | undefined> {
  try {
    return parseDownload(JSON.parse(await readOwn(folder, NAME, MAX_BYTES)), modelId)
  } catch {
    return undefined
  }
}

type Fields = Record<string, unknown>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string'
const isBytes = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText)
const orNull = <T>(value: unknown, is: (value: unknown) => value is T): value is T | null =>
  value === null || is(value)
const isHex = (value: unknown, length: number): boolean =>
  value === null || (isText(value) && value.length === length && /^[0-9a-f]+$/.test(value))

/** The download in a parsed file, or undefined when anything about it is wrong. Pure. */
export function parseDownload (value: unknown, modelId: string): DownloadRecord | undefined {
  if (!isFields(value) || value['format'] !== 1) return undefined
  const { source, revision, allow, variant, state, error, reason, startedAt, totalBytes } = value
  const { selection } = value
  if (!isText(source) || !isText(startedAt) || !isBytes(totalBytes)) return undefined
  if (!orNull(revision, isText) || !orNull(variant, isText) || !orNull(allow, isTexts)) return undefined
  if (!orNull(error, isText) || !orNull(reason, isText)) return undefined
  if (!['active', 'paused', 'cancelled', 'failed'].includes(state as string)) return undefined
  if (selection !== null && !isSelection(selection, modelId)) return undefined
  return {
    format: 1, source, revision, allow, variant, state: state as RecordState, error, reason, startedAt,
    totalBytes, selection
  }
}

function isSelection (value: unknown, modelId: string): value is HubSelection {
  if (!isFields(value) || value['modelId'] !== modelId || !Array.isArray(value['files'])) return false
  const { commit, files, totalBytes } = value
  if (commit === null || !isHex(commit, 40) || files.length === 0 || files.length > MOST_FILES) return false
  return files.every(isSelected) && totalBytes === files.reduce((sum, file) => sum + file.size, 0)
}

function isSelected (file: unknown): file is HubSelection['files'][number] {
  if (!isFields(file)) return false
  const { path, size, sha256, gitSha1 } = file
  return isText(path) && filePathProblem(path) === null && isBytes(size) &&
    isHex(sha256, 64) && isHex(gitSha1, 40) && (sha256 !== null || gitSha1 !== null)
}
