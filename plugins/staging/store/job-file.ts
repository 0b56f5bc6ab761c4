import { filePathProblem } from '../files/names.js'
import { putOwn, readOwn } from '../files/open.js'
import type { HubSelection } from '../hub/types.js'

/** What was asked for. */
export interface JobRequest {
  /** `hub`, `file:///…` or `node:<installId>`. */
  source: string
  revision: string | null
  allow: string[] | null
  variant: string | null
}

/** Whether a job goes on by itself when the store opens (`active`), or waits to be told. */
export type JobState = 'active' | 'paused' | 'cancelled' | 'failed'

/** A job as it is kept beside its bytes, so that it outlives the process. */
export interface JobRecord extends JobRequest {
  format: 1
  state: JobState
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
const MAX_FILES = 16_384

/** Writes the job into its folder (made when absent), so that a crash leaves the old one or the new one. */
export async function writeJob (folder: string, job: JobRecord): Promise<void> {
  await putOwn(folder, NAME, async (file) => {
    await file.writeFile(JSON.stringify(job))
    await file.sync()
    await file.close()
  })
}

/** The job kept in a folder; undefined when there is none or when it is not whole. */
export async function readJob (folder: string, modelId: string): Promise<JobRecord | undefined> {
  try {
    return parseJob(JSON.parse(await readOwn(folder, NAME, MAX_BYTES)), modelId)
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

/** A job of a parsed file, or undefined when anything about it is wrong. Pure. */
export function parseJob (value: unknown, modelId: string): JobRecord | undefined {
  if (!isFields(value) || value['format'] !== 1) return undefined
  const { source, revision, allow, variant, state, error, reason, startedAt, totalBytes } = value
  const { selection } = value
  if (!isText(source) || !isText(startedAt) || !isBytes(totalBytes)) return undefined
  if (!orNull(revision, isText) || !orNull(variant, isText) || !orNull(allow, isTexts)) return undefined
  if (!orNull(error, isText) || !orNull(reason, isText)) return undefined
  if (!['active', 'paused', 'cancelled', 'failed'].includes(state as string)) return undefined
  if (selection !== null && !isSelection(selection, modelId)) return undefined
  return {
    format: 1, source, revision, allow, variant, state: state as JobState, error, reason, startedAt,
    totalBytes, selection
  }
}

function isSelection (value: unknown, modelId: string): value is HubSelection {
  if (!isFields(value) || value['modelId'] !== modelId || !Array.isArray(value['files'])) return false
  const { commit, files, totalBytes } = value
  if (commit === null || !isHex(commit, 40) || files.length === 0 || files.length > MAX_FILES) return false
  return files.every(isSelected) && totalBytes === files.reduce((sum, file) => sum + file.size, 0)
}

function isSelected (file: unknown): file is HubSelection['files'][number] {
  if (!isFields(file)) return false
  const { path, size, sha256, gitSha1 } = file
  return isText(path) && filePathProblem(path) === null && isBytes(size) &&
    isHex(sha256, 64) && isHex(gitSha1, 40) && (sha256 !== null || gitSha1 !== null)
}
