import { schemaChecker } from '../../../kernel/api/validate.js'
import { openObject, type FromSchema } from '../../../kernel/index.js'
import { text } from '../routes-parts.js'
import { putOwnText, readOwn } from '../files/open.js'
import { hex, MOST_FILES, size } from '../files/record.js'
import { checkSelected } from '../hub/listing.js'
import type { HubSelection } from '../hub/types.js'
import type { Answers } from '../routes.js'
import type { Failure, Job } from '../transfer/job.js'
import type { LocalCopy } from '../types.js'

/** `source`: `hub`, `file:///…` or `node:<installId>`. */
export type DownloadRequest = Pick<DownloadRecord, 'source' | 'revision' | 'allow' | 'variant'>

/** `selection` lists the hub's files once they are chosen. */
export type Download = Job<{
  readonly request: DownloadRequest
  selection: HubSelection | null
  /** Whether to use files from this machine's hub cache; only operators may set this. */
  readonly nearby?: boolean
  /** Number of starts so far; each start but the current one ended because the process ended. */
  attempts: number
}>

export type DownloadStatus = Required<Answers['downloadState']>

export function statusOf (job: Download): DownloadStatus {
  const { modelId, state, progress: { bytes, totalBytes }, ask: { request, selection } } = job
  const failure = state === 'failed' ? job.failure : null
  return {
    modelId, status: state === 'closed' ? 'pending' : state,
    progress: state === 'complete' ? 1 : totalBytes === 0 ? 0 : bytes / totalBytes,
    error: failure?.message ?? null, reason: failure?.reason ?? null, downloadedBytes: bytes, totalBytes,
    bytesPerSecond: job.bytesPerSecond, etaMs: job.etaMs, source: request.source,
    revision: selection?.commit ?? request.revision, startedAt: job.startedAt
  }
}

export function statusOfEntry (modelId: string, entry: LocalCopy | undefined): DownloadStatus {
  const none: DownloadStatus = {
    modelId, status: 'not_found', progress: 0, error: null, reason: null, downloadedBytes: 0, totalBytes: 0,
    bytesPerSecond: 0, etaMs: null, source: null, revision: null, startedAt: null
  }
  if (entry === undefined) return none
  const { source, manifest: { totalBytes, revision } } = entry
  const done = { progress: 1, downloadedBytes: totalBytes, totalBytes }
  return { ...none, ...done, status: 'complete', source, revision }
}

const textOrNull = { type: ['string', 'null'] } as const

const recordSchema = openObject({
  format: { const: 1 },
  source: text, revision: textOrNull, variant: textOrNull,
  allow: { type: ['array', 'null'], items: text },
  state: { enum: ['active', 'paused', 'cancelled', 'failed'] },
  error: textOrNull, reason: textOrNull, startedAt: text, totalBytes: size,
  selection: {
    ...openObject({
      modelId: text, commit: hex(40), totalBytes: size,
      files: {
        type: 'array', minItems: 1, maxItems: MOST_FILES,
        items: openObject({
          path: text, size, sha256: { ...hex(64), ...textOrNull }, gitSha1: { ...hex(40), ...textOrNull }
        })
      }
    }),
    type: ['object', 'null']
  }
})
const problemOf = schemaChecker(recordSchema)

/** A download as saved next to its bytes. Active ones resume with the same files when the store opens. */
export type DownloadRecord = Omit<FromSchema<typeof recordSchema>, 'selection'> &
  // Optional, because earlier releases did not record `attempts`.
  { selection: HubSelection | null, attempts?: number }

const NAME = '.svc-job.json'
const MAX_BYTES = 64 * 1024 * 1024

export async function writeDownload (
  folder: string, job: Download, state: DownloadRecord['state'], failure: Failure | null = null
): Promise<void> {
  const { ask: { request, selection, attempts }, startedAt, progress: { totalBytes } } = job
  const { message: error = null, reason = null } = failure ?? {}
  const about = { ...request, state, error, reason, attempts, startedAt, totalBytes, selection }
  const record: DownloadRecord = { format: 1, ...about }
  await putOwnText(folder, NAME, JSON.stringify(record))
}

/** The record of a download in a folder; undefined if missing or damaged. */
export async function readDownload (folder: string, modelId: string): Promise<DownloadRecord | undefined> {
  try {
    return parseDownload(JSON.parse(await readOwn(folder, NAME, MAX_BYTES)), modelId)
  } catch { return undefined }
}

/** Parses a record; undefined if it is invalid, except that invalid files in the selection throw. */
function parseDownload (value: unknown, modelId: string): DownloadRecord | undefined {
  if (problemOf(value) !== null) return undefined
  const record = value as DownloadRecord
  const { selection, attempts = 0 } = record
  if (!Number.isSafeInteger(attempts)) return undefined
  if (selection === null) return record
  const { files, totalBytes } = selection
  return selection.modelId === modelId && checkSelected(files) === totalBytes ? record : undefined
}
