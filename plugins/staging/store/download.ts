import type { Clock } from '../../../kernel/index.js'
import type { HubSelection } from '../hub/types.js'
import type { ModelManifest, Progress } from '../types.js'
import { asStoreError, StoreError } from './types.js'
import type { JobRecord, JobRequest, JobState } from './job-file.js'
import { RateMeter } from '../transfer/progress.js'
import type { DownloadStatus, Job } from './types.js'

/** Progress is told at most this often. */
const TELL_EVERY_MS = 500

/** Why a run was ended from outside: `closed` ones go on when the store opens again. */
export type Stop = 'paused' | 'cancelled' | 'closed'

/** What a download begins with. */
export interface DownloadSetup {
  modelId: string
  request: JobRequest
  /** What an earlier run of the same job had: its pinned choice of files, bytes, and time of start. */
  past?: { selection: HubSelection | null, bytes: number, totalBytes: number, startedAt: string }
}

/** One run of a download: what it is, how far it is, and how it ended. */
export class Download implements Job {
  readonly modelId: string
  readonly request: JobRequest
  /** The exact files, once they are chosen. */
  selection: HubSelection | null
  /** Why it failed. */
  failure: StoreError | null = null
  readonly done: Promise<DownloadStatus>
  readonly #clock: Clock
  readonly #changed: () => void
  readonly #meter = new RateMeter()
  readonly #abort = new AbortController()
  readonly #startedAt: string
  #state: DownloadStatus['status'] = 'pending'
  #stop: Stop | null = null
  #over = false
  #bytes: number
  #totalBytes: number
  #toldAt = -Infinity
  #settle: (status: DownloadStatus) => void = () => undefined

  constructor (setup: DownloadSetup, clock: Clock, changed: () => void) {
    const { modelId, request, past } = setup
    this.modelId = modelId
    this.request = request
    this.selection = past?.selection ?? null
    this.#bytes = past?.bytes ?? 0
    this.#totalBytes = past?.totalBytes ?? 0
    this.#startedAt = past?.startedAt ?? new Date(clock.now()).toISOString()
    this.#clock = clock
    this.#changed = changed
    this.done = new Promise((resolve) => { this.#settle = resolve })
  }

  /** Aborted when the run is to end. */
  get signal (): AbortSignal { return this.#abort.signal }

  /** True while it runs and nobody has told it to end. */
  get running (): boolean { return !this.#over && this.#stop === null }

  /** True until it has ended in one way or another. */
  get alive (): boolean { return !this.#over }

  /** Who ended it, if somebody did; the last word counts. */
  get stopped (): Stop | null { return this.#stop }

  status (): DownloadStatus {
    const now = this.#clock.mono()
    const bytesPerSecond = this.#over ? 0 : Math.round(this.#meter.rate(now))
    const left = this.#totalBytes - this.#bytes
    return {
      modelId: this.modelId,
      status: this.#state,
      progress: this.#progress(),
      error: this.failure?.message ?? null,
      reason: this.failure?.reason ?? null,
      downloadedBytes: this.#bytes,
      totalBytes: this.#totalBytes,
      bytesPerSecond,
      etaMs: bytesPerSecond === 0 ? null : Math.round(left / bytesPerSecond * 1000),
      source: this.request.source,
      revision: this.selection?.commit ?? this.request.revision,
      startedAt: this.#startedAt
    }
  }

  /** What is kept of it on disk. */
  record (state: JobState): JobRecord {
    return {
      format: 1,
      ...this.request,
      state,
      error: this.failure?.message ?? null,
      reason: this.failure?.reason ?? null,
      startedAt: this.#startedAt,
      totalBytes: this.#totalBytes,
      selection: this.selection
    }
  }

  /** The size is known now. */
  sized (totalBytes: number): void {
    this.#totalBytes = totalBytes
    this.#bytes = Math.min(this.#bytes, totalBytes)
  }

  /** Bytes move from now on. */
  begin (): void {
    this.#state = 'downloading'
    this.#changed()
  }

  /** Takes note of how far it is; a lower count than before does not show. */
  progress ({ bytes, totalBytes }: Progress): void {
    const now = this.#clock.mono()
    if (this.#totalBytes !== totalBytes) this.sized(totalBytes)
    this.#bytes = Math.min(totalBytes, Math.max(this.#bytes, Math.floor(bytes)))
    this.#meter.add(this.#bytes, now)
    if (now - this.#toldAt < TELL_EVERY_MS) return
    this.#toldAt = now
    this.#changed()
  }

  /** Tells the run to end. */
  stop (why: Stop): void {
    if (this.#over || (why === 'closed' && this.#stop !== null)) return
    this.#stop = why
    this.#abort.abort(new StoreError(why, `the download of ${this.modelId} was ${why}`))
  }

  /** It is complete. */
  complete ({ totalBytes }: ModelManifest): void {
    this.#totalBytes = totalBytes
    this.#bytes = totalBytes
    this.#end('complete')
  }

  /** Notes why it failed; nothing is noted when it was told to end. */
  blame (error: unknown): void {
    if (this.#stop === null) this.failure = asStoreError(error)
  }

  /** It ended without being complete: it failed, or somebody ended it. */
  end (): void {
    if (this.failure !== null) this.#end('failed')
    else this.#end(this.#stop === null || this.#stop === 'closed' ? 'pending' : this.#stop)
  }

  /** It was paused, and nobody wants it any more. */
  forsake (): void {
    this.#stop = 'cancelled'
    this.#end('cancelled')
  }

  /** It ended in an earlier life of the process, and this is how. */
  restore ({ state, error, reason }: Pick<JobRecord, 'state' | 'error' | 'reason'>): void {
    if (state === 'failed') this.failure = new StoreError(reason ?? 'internal', error ?? 'it failed earlier')
    this.#end(state === 'active' ? 'pending' : state)
  }

  #end (state: DownloadStatus['status']): void {
    this.#state = state
    this.#over = true
    this.#changed()
    this.#settle(this.status())
  }

  #progress (): number {
    if (this.#state === 'complete') return 1
    return this.#totalBytes === 0 ? 0 : this.#bytes / this.#totalBytes
  }
}
