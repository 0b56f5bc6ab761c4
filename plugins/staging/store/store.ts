import { modelIdProblem } from '../files/names.js'
import { failureOf, Job, JobTable, type Failure, type JobParts, type Stop } from '../transfer/job.js'
import {
  readDownload, statusOf, statusOfEntry, writeDownload, type Download, type DownloadRecord,
  type DownloadRequest, type DownloadStatus
} from './download.js'
import { download, NO_HUB } from './fetch.js'
import { MOST_ATTEMPTS, StoreIndex } from './store-index.js'
import { parseSource, type StartOptions, type StoreOptions, type StoreProblem } from './types.js'
import { StoreError, type LocalCopy } from '../types.js'
import type { ModelRoot } from '../files/root.js'

type Ask = Download['ask']

export class Store {
  readonly #options: StoreOptions
  readonly #index: StoreIndex
  readonly #jobs = new JobTable<Download>()
  /** Resolves after existing folders have been checked and imported. */
  checkedAt: Promise<void> = Promise.resolve()

  constructor (options: StoreOptions) {
    this.#options = options
    options.root.onChange = options.onChange
    this.#index = new StoreIndex(options, this.#jobs.turns)
  }

  /**
   * Offers existing models, resumes interrupted downloads, and imports folders without a record in the
   * background. Call once, before all else. Throws with path and cause if the folder is unusable.
   */
  async open (): Promise<void> {
    await this.#options.root.prepare()
    await this.#options.root.load()
    await this.#restore()
    this.checkedAt = this.#index.importExisting()
  }

  get root (): ModelRoot { return this.#options.root }
  entries (): readonly LocalCopy[] { return [...this.#options.root.copies.values()] }
  get (modelId: string): LocalCopy | undefined { return this.#options.root.copies.get(modelId) }
  /** Models that other nodes can fetch: the bundled ones and the store's, which take precedence. */
  offers (): LocalCopy[] {
    const { local: { bundled }, root } = this.#options
    return [...new Map([...bundled, ...root.copies]).values()]
  }

  offer (modelId: string): LocalCopy | undefined {
    return this.get(modelId) ?? this.#options.local.bundled.get(modelId)
  }

  problems (): readonly StoreProblem[] { return this.#index.problems() }

  /**
   * Starts a download or joins a running one with the same options. Completes immediately if the store has
   * the commit or the bytes. Without options, an interrupted download resumes with its original options, and
   * a paused one with its original files too. `nearby` allows files from this machine's hub cache. Throws
   * StoreError `invalid_model_id`, `bad_source`, `no_hub`, `closed`, or `download_running` for other options.
   */
  start (modelId: string, options: StartOptions = {}, nearby = false): Download {
    this.#check(modelId)
    const job = this.#jobs.get(modelId)
    const plain = Object.values(options).every((option) => option === undefined)
    const again = plain && job !== undefined && job.over && job.state !== 'complete'
    const { source = 'hub', revision = null, allow, variant = null } = options
    const request: DownloadRequest = again ? job.ask.request
      : { source, revision, allow: allow === undefined ? null : [...allow], variant }
    const { kind } = parseSource(request.source)
    if (plain && !again && this.#isEnough(modelId)) {
      this.#jobs.delete(modelId)
      return this.#settled(modelId, request)
    }
    if (kind === 'hub' && this.#options.hub === null && !again) throw new StoreError('no_hub', NO_HUB)
    const same = job !== undefined && isSame(job.ask.request, request)
    if (job !== undefined && isRunning(job)) {
      if (same) return job
      throw new StoreError('download_running', `${modelId} is being downloaded from ` +
        `${job.ask.request.source} with other options; wait for it or cancel it`)
    }
    const none: Ask = { request, selection: null, nearby, attempts: 0 }
    if (!same || job.state !== 'paused') return this.#begin(modelId, none)
    // A paused download resumes with the files that were selected when it started.
    const { progress: { bytes, totalBytes }, startedAt } = job
    return this.#begin(modelId, { ...job.ask, nearby }, { bytes, totalBytes, startedAt })
  }

  /** Stops a download and keeps its bytes; it does not resume by itself. Throws like `cancel`. */
  async pause (modelId: string): Promise<DownloadStatus> { return await this.#stop(modelId, 'paused') }

  /** Stops a download; its bytes stay for a day for a later start. Throws StoreError `no_download`. */
  async cancel (modelId: string): Promise<DownloadStatus> { return await this.#stop(modelId, 'cancelled') }

  /** Status of a model's download; `complete` if there is none but the store has the model. */
  status (modelId: string): DownloadStatus {
    const entry = this.get(modelId)
    const job = this.#jobs.get(modelId)
    // If the store has no entry, ignore a complete job: the model may have been removed by hand.
    return job === undefined || (job.state === 'complete' && entry === undefined)
      ? statusOfEntry(modelId, entry) : statusOf(job)
  }

  downloads (): readonly DownloadStatus[] { return [...this.#jobs.values()].map(statusOf) }

  /** Removes a model from the store. Resolves with the freed bytes. Throws `not_in_store`. */
  async remove (modelId: string): Promise<number> {
    this.#check(modelId)
    const { root, onChange } = this.#options
    const job = this.#jobs.get(modelId)
    const open = job !== undefined && goesOn(job)
    job?.stop('cancelled')
    this.#index.interrupt(modelId)
    return await this.#jobs.turns.run(modelId, async () => {
      const copy = await root.read(modelId)
      const [{ sizeBytes } = { sizeBytes: 0 }] = await root.pending(modelId)
      await root.discard(modelId)
      const freed = copy?.ours === true ? await root.remove(modelId) : 0
      if (this.#jobs.get(modelId) === job) this.#jobs.delete(modelId)
      root.forget(modelId)
      this.#index.drop(modelId)
      onChange(modelId)
      // A failed download without bytes has left nothing but its error.
      if (copy === undefined && sizeBytes === 0 && !open) {
        throw new StoreError('not_in_store', `The store has no model ${modelId}.`)
      }
      return freed + sizeBytes
    })
  }

  /** Stops all downloads, which resume when the store opens again. */
  async close (): Promise<void> {
    this.#index.close()
    await Promise.all([this.checkedAt, this.#jobs.close()])
  }

  #check (modelId: string): void {
    if (this.#jobs.closed) throw new StoreError('closed', 'the store is closed')
    const problem = modelIdProblem(modelId)
    if (problem !== null) throw new StoreError('invalid_model_id', problem)
  }

  /** Whether a start without options can use the store's copy: it is not from a hub, or hubs are off. */
  #isEnough (modelId: string): boolean {
    const entry = this.get(modelId)
    const job = this.#jobs.get(modelId)
    if (entry === undefined || (job !== undefined && goesOn(job))) return false
    return this.#options.hub === null || !entry.source.startsWith('hub:')
  }

  #settled (modelId: string, request: DownloadRequest): Download {
    const { manifest: { totalBytes } } = this.get(modelId)!
    const job: Download = new Job(modelId, { request, selection: null, attempts: 0 },
      { clock: this.#options.clock, onChange: () => undefined })
    job.complete(totalBytes)
    return job
  }

  #begin (modelId: string, ask: Ask, past?: JobParts['past']): Download {
    const job = this.#track(modelId, ask, past)
    this.#options.onChange(modelId)
    void this.#jobs.turns.run(modelId, async () => { await this.#run(job) })
    return job
  }

  #track (modelId: string, ask: Ask, past: JobParts['past']): Download {
    const { clock, onChange } = this.#options
    const job: Download = new Job(modelId, ask, { clock, past, onChange: () => { onChange(modelId) } })
    this.#jobs.set(modelId, job)
    return job
  }

  async #run (job: Download): Promise<void> {
    const { log } = this.#options
    const { modelId, ask: { request: { source } } } = job
    try {
      const { manifest: { totalBytes: bytes } } = await download(this.#options, job)
      job.complete(bytes)
      log.info({ modelId, bytes, source }, 'the store has the model')
    } catch (error) {
      const failure = job.stopped === null ? failureOf(error) : null
      if (failure !== null) {
        const { reason, message } = failure
        log.warn({ modelId, reason, error: message, source }, 'a download failed')
        this.#options.onFailed?.(job, failure)
      }
      await this.#keep(job, job.stopped ?? 'failed', failure).catch((cause: unknown) => {
        log.error({ modelId, error: String(cause) }, 'the state of a download could not be written')
      })
      job.fail(error)
    }
  }

  /** Records how a download ended; removes the folder if it is empty. */
  async #keep (job: Download, state: Stop | 'failed', failure: Failure | null = null): Promise<void> {
    const { root } = this.#options
    const [partial] = await root.pending(job.modelId)
    // The process did not end during this job, so attempts count from 0 again.
    job.ask.attempts = 0
    if (state === 'closed' && partial !== undefined) await writeDownload(partial.directory, job, 'active')
    if (state === 'closed') return
    if (state !== 'paused' && (partial?.sizeBytes ?? 0) === 0) await root.discard(job.modelId)
    else await writeDownload(root.incoming(job.modelId), job, state, failure)
  }

  async #stop (modelId: string, why: 'paused' | 'cancelled'): Promise<DownloadStatus> {
    this.#check(modelId)
    const job = this.#jobs.get(modelId)
    if (job === undefined || !goesOn(job)) {
      throw new StoreError('no_download', `there is no download of ${modelId}`)
    }
    job.stop(why)
    await job.ended
    if (why !== 'cancelled' || job.state !== 'paused') return statusOf(job)
    return await this.#jobs.turns.run(modelId, async () => {
      if (this.#jobs.get(modelId) !== job) return this.status(modelId)
      job.end('cancelled')
      await this.#keep(job, 'cancelled')
      return statusOf(job)
    })
  }

  async #restore (): Promise<void> {
    const { root, log } = this.#options
    const records = new Map<string, DownloadRecord>()
    for (const { modelId, directory } of await root.pending()) {
      const record = await readDownload(directory, modelId)
      if (record !== undefined) records.set(modelId, record)
    }
    const live = [...records].filter(([, { state }]) => state === 'active' || state === 'paused')
    await root.expire(new Map(live), log)
    for (const { modelId, sizeBytes } of await root.pending()) {
      const record = records.get(modelId)
      if (record !== undefined) this.#takeUp(modelId, record, sizeBytes)
    }
  }

  async expire (): Promise<void> {
    const { root, log } = this.#options
    const has = (modelId: string): boolean => {
      const job = this.#jobs.get(modelId)
      return job !== undefined && goesOn(job)
    }
    await root.expire({ has }, log)
  }

  #takeUp (modelId: string, record: DownloadRecord, partialBytes: number): void {
    const { source, revision, allow, variant, state, selection, startedAt, totalBytes } = record
    const { reason, error, attempts = 0 } = record
    const ask = { request: { source, revision, allow, variant }, selection, nearby: false, attempts }
    // An active download starts at 0, because it counts the existing bytes again while it verifies them.
    const bytes = state === 'active' ? 0 : Math.min(partialBytes, totalBytes)
    const past = { startedAt, totalBytes, bytes }
    if (state === 'active' && attempts < MOST_ATTEMPTS) {
      this.#begin(modelId, ask, past)
      return
    }
    const job = this.#track(modelId, { ...ask, attempts: 0 }, past)
    if (state === 'active') {
      this.#options.log.error({ modelId, attempts }, 'a download is not resumed')
      job.end('failed', parked(modelId, attempts))
    } else {
      const failure = { reason: reason ?? 'internal', message: error ?? 'it failed earlier' }
      job.end(state, state === 'failed' ? failure : null)
    }
  }
}

const parked = (modelId: string, attempts: number): Failure => ({
  reason: 'parked',
  message: `the node ended ${attempts} times during this download, so svc does not resume it; ` +
    `find the cause in the node's log, then run \`svc downloads resume ${modelId}\``
})

const isRunning = (job: Download): boolean => !job.over && job.stopped === null

const goesOn = (job: Download): boolean => !job.over || job.state === 'paused'

const isSame = (a: DownloadRequest, b: DownloadRequest): boolean => JSON.stringify(a) === JSON.stringify(b)
