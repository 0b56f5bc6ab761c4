import { randomUUID } from 'node:crypto'
import type { Clock } from '../../../kernel/index.js'
import { KeyedLock } from '../files/queues.js'
import { RateMeter } from './progress.js'
import type { Progress } from '../types.js'

/** Shortest interval in ms between `onChange` calls for progress. */
const PROGRESS_MS = 500

/** Why a job was stopped; a `closed` job resumes when the node starts again. */
export type Stop = 'paused' | 'cancelled' | 'closed'
export type JobState = 'pending' | 'downloading' | 'complete' | 'failed' | Stop

/** Why a job ended early: `reason` is a one-word code, `message` a sentence for the user. */
export interface Failure { reason: string, message: string }

/** A transfer as in /state.downloads: an object whose only key names its state. */
export type DownloadView = Record<string, {
  nodeId: string, modelId: string, attemptId: string, [more: string]: unknown
}>

export interface JobParts {
  clock: Clock
  /** Called on state changes, and periodically for progress. */
  onChange: () => void
  /** The progress made by an earlier run of this job. */
  past?: { bytes: number, totalBytes: number, startedAt: string } | undefined
}

/** A transfer of a model to this node, from the request on: a download into the store, or staging. */
export class Job<Ask = unknown> {
  readonly modelId: string
  readonly ask: Ask
  readonly attemptId = randomUUID()
  readonly startedAt: string
  readonly ended: Promise<void>
  state: JobState = 'pending'
  failure: Failure | null = null
  /** Progress so far; `bytes` never decreases. */
  progress: Progress
  stopped: Stop | null = null
  readonly #clock: Clock
  readonly #onChange: () => void
  readonly #rate = new RateMeter()
  readonly #abort = new AbortController()
  #reportedAt = -Infinity
  #settle: () => void = () => undefined

  constructor (modelId: string, ask: Ask, { clock, onChange, past }: JobParts) {
    const { bytes = 0, totalBytes = 0, startedAt = new Date(clock.now()).toISOString() } = past ?? {}
    this.modelId = modelId
    this.ask = ask
    this.progress = { bytes, totalBytes, files: 0, totalFiles: 0 }
    this.startedAt = startedAt
    this.#clock = clock
    this.#onChange = onChange
    this.ended = new Promise((resolve) => { this.#settle = resolve })
  }

  get signal (): AbortSignal { return this.#abort.signal }

  get over (): boolean { return this.state !== 'pending' && this.state !== 'downloading' }

  /** Rate over the last 10 seconds; 0 after the end. */
  get bytesPerSecond (): number { return this.over ? 0 : Math.round(this.#rate.rate(this.#clock.mono())) }

  /** Remaining ms at the current rate; null if unknown. */
  get etaMs (): number | null {
    const { bytesPerSecond: rate, progress: { bytes, totalBytes } } = this
    return rate === 0 ? null : Math.round((totalBytes - bytes) / rate * 1000)
  }

  sized (totalBytes: number): void {
    this.progress = { ...this.progress, totalBytes, bytes: Math.min(this.progress.bytes, totalBytes) }
  }

  begin (): void {
    this.state = 'downloading'
    this.#onChange()
  }

  /** Reports progress; ignores a lower byte count than before. */
  moved ({ bytes, totalBytes, files, totalFiles }: Progress): void {
    const now = this.#clock.mono()
    if (this.state === 'pending') this.state = 'downloading'
    const most = Math.min(totalBytes, Math.max(this.progress.bytes, Math.floor(bytes)))
    this.progress = { bytes: most, totalBytes, files, totalFiles }
    this.#rate.add(most, now)
    if (now - this.#reportedAt < PROGRESS_MS) return
    this.#reportedAt = now
    this.#onChange()
  }

  /** Stops the job unless it has ended; await `ended` afterwards. */
  stop (why: Stop): void {
    if (this.over || (why === 'closed' && this.stopped !== null)) return
    this.stopped = why
    const message = why === 'closed' ? 'the node is stopping' : `the transfer of ${this.modelId} was ${why}`
    this.#abort.abort(Object.assign(new Error(message), { reason: why }))
  }

  complete (totalBytes = this.progress.totalBytes): void {
    this.progress = { ...this.progress, bytes: totalBytes, totalBytes }
    this.end('complete')
  }

  fail (error: unknown): void {
    this.end(this.stopped ?? 'failed', failureOf(this.stopped === null ? error : this.signal.reason))
  }

  end (state: JobState, failure: Failure | null = null): void {
    this.state = state
    this.failure = failure
    this.#onChange()
    this.#settle()
  }

  view (nodeId: string): DownloadView {
    const { modelId, attemptId, progress: { bytes, totalBytes, files, totalFiles } } = this
    const base = { nodeId, modelId, attemptId }
    switch (this.state) {
      case 'pending': return { DownloadPending: { ...base, downloaded: bytes, total: totalBytes } }
      case 'complete': return { DownloadCompleted: { ...base, total: totalBytes } }
      case 'downloading': {
        const downloadProgress = {
          total: totalBytes, downloaded: bytes, completedFiles: files, totalFiles,
          speed: this.bytesPerSecond, etaMs: this.etaMs
        }
        return { DownloadOngoing: { ...base, downloadProgress } }
      }
      default: {
        const { message: errorMessage = '', reason = '' } = this.failure ?? {}
        return { DownloadFailed: { ...base, errorMessage, reason } }
      }
    }
  }
}

/** The latest job of each key. `turns` runs all work on the same model one piece at a time. */
export class JobTable<J extends Job> extends Map<string, J> {
  readonly turns = new KeyedLock()
  /** True after `close`; new jobs must then be refused. */
  closed = false

  open (modelId?: string): J[] {
    return [...this.values()].filter((job) => !job.over && (modelId ?? job.modelId) === job.modelId)
  }

  /** Stops the jobs of a model, or all jobs, but keeps the bytes. Resolves with true if there was a job. */
  async stop (why: Stop, modelId?: string): Promise<boolean> {
    const open = this.open(modelId)
    for (const job of open) job.stop(why)
    await Promise.all(open.map(({ ended }) => ended))
    return open.length > 0
  }

  async close (): Promise<void> {
    this.closed = true
    await this.stop('closed')
  }
}

const CODES: Record<string, string> = {
  ENOSPC: 'disk_full', EDQUOT: 'disk_full', EROFS: 'unwritable', EACCES: 'unwritable', EPERM: 'unwritable'
}

/** The error's own reason, else the reason for its errno code, else `internal`. Pure. */
export function failureOf (error: unknown): Failure {
  const { reason, code, message } = (error ?? {}) as Record<string, unknown>
  return {
    reason: typeof reason === 'string' ? reason : CODES[String(code)] ?? 'internal',
    message: typeof message === 'string' && message !== '' ? message : String(error)
  }
}
