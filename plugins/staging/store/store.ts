import { modelIdProblem } from '../files/names.js'
import { Download } from './download.js'
import type { DownloadSetup } from './download.js'
import { StoreError, parseSource } from './types.js'
import { fetchModel, NO_HUB } from './fetch.js'
import { readJob, writeJob } from './job-file.js'
import type { JobRecord, JobRequest } from './job-file.js'
import { StoreIndex } from './store-index.js'
import { bytesIn } from './folder.js'
import { KeyedLock } from '../files/queues.js'
import type { DownloadStatus, Job, StartOptions, StoreEntry, StoreOptions, StoreProblem } from './types.js'

/** Partial downloads nobody goes on with are removed after that. */
const KEEP_PARTIAL_MS = 24 * 60 * 60 * 1000

/**
 * Opens the store: offers what is there, goes on with the downloads that were running, and hashes folders
 * without a record in the background. Rejects with path and cause when the folder cannot be used.
 */
export async function openStore (options: StoreOptions): Promise<Store> {
  const store = new Store(options)
  await store.open()
  return store
}

/** The store of a node: complete models, and the downloads that bring more. Made by `openStore`. */
export class Store {
  readonly #options: StoreOptions
  readonly #index: StoreIndex
  readonly #turns = new KeyedLock()
  /** The last download of each model. */
  readonly #jobs = new Map<string, Download>()
  readonly #changed: (modelId: string) => void
  #closed = false

  constructor (options: StoreOptions) {
    const { root, clock, derive, log, onChange } = options
    this.#options = options
    this.#changed = onChange ?? (() => undefined)
    this.#index = new StoreIndex({ root, clock, derive, log, turns: this.#turns, changed: this.#changed })
  }

  /** See `openStore`, which calls it once. */
  async open (): Promise<void> {
    await this.#options.root.prepare()
    await this.#index.load()
    await this.#restore()
    void this.refresh()
  }

  entries (): readonly StoreEntry[] { return this.#index.entries() }
  get (modelId: string): StoreEntry | undefined { return this.#index.get(modelId) }
  /** Folders in the store that are not offered, and why. */
  problems (): readonly StoreProblem[] { return this.#index.problems() }
  /** Looks at the disk again; resolves when folders that somebody put there are hashed and taken in. */
  async refresh (): Promise<void> { await this.#index.refresh() }

  /**
   * Starts a download, or joins the one that does the same. It is complete at once when the store has the
   * same commit or the same bytes. Throws StoreError `invalid_model_id`, `bad_source`, `no_hub`,
   * `download_running` (with other options), `closed`.
   */
  start (modelId: string, options: StartOptions = {}): Job {
    this.#check(modelId)
    const request = requestOf(options)
    const { kind } = parseSource(request.source)
    if (this.#sufficient(modelId, options)) {
      this.#jobs.delete(modelId)
      return settled(this.status(modelId))
    }
    if (kind === 'hub' && this.#options.hub === null) throw new StoreError('no_hub', NO_HUB)
    return this.#startOrJoin({ modelId, request })
  }

  /** Ends a download for now; its bytes stay, and it does not go on by itself. */
  async pause (modelId: string): Promise<DownloadStatus> { return await this.#stop(modelId, 'paused') }

  /** Ends a download; its bytes stay for a day and serve a later start. */
  async cancel (modelId: string): Promise<DownloadStatus> { return await this.#stop(modelId, 'cancelled') }

  /**
   * Goes on with a download that was paused, with the very files it began with, or starts one that failed or
   * was cancelled again as it was asked for. Throws StoreError `no_download`.
   */
  resume (modelId: string): Job {
    this.#check(modelId)
    const job = this.#jobs.get(modelId)
    if (job?.running === true) return job
    if (job === undefined || job.alive || job.status().status === 'complete') {
      throw new StoreError('no_download', `no download of ${modelId} was broken off; start it instead`)
    }
    if (isPaused(job)) return this.#begin(sequel(job))
    return this.#begin({ modelId, request: job.request })
  }

  /** How far the download of a model is; `complete` when there is none and the store has it. */
  status (modelId: string): DownloadStatus {
    const entry = this.get(modelId)
    const status = this.#jobs.get(modelId)?.status()
    // A model that was removed by hand since is not complete any more.
    return status === undefined || (status.status === 'complete' && entry === undefined)
      ? statusOf(modelId, entry)
      : status
  }

  /** The last download of each model since the store opened, and those an earlier process left. */
  downloads (): readonly DownloadStatus[] {
    return [...this.#jobs.values()].map((job) => job.status())
  }

  /**
   * Removes a model, its download and what that fetched. Resolves with the bytes this gives back. Rejects
   * with StoreError `not_in_store`.
   */
  async remove (modelId: string): Promise<number> {
    this.#check(modelId)
    const { root } = this.#options
    const job = this.#jobs.get(modelId)
    job?.stop('cancelled')
    this.#index.interrupt(modelId)
    return await this.#turns.run(modelId, async () => {
      const copy = await root.read(modelId)
      const partial = (await root.pending()).find((pending) => pending.modelId === modelId)
      if (copy === undefined && partial === undefined && job === undefined) {
        throw new StoreError('not_in_store', `${modelId} is not in the store, and no download of it is`)
      }
      await root.discard(modelId)
      const freed = copy?.ours === true ? await root.remove(modelId) : 0
      if (this.#jobs.get(modelId) === job) this.#jobs.delete(modelId)
      this.#index.drop(modelId)
      this.#changed(modelId)
      return freed + (partial?.sizeBytes ?? 0)
    })
  }

  /** Ends everything; downloads go on when the store is opened again. */
  async close (): Promise<void> {
    this.#closed = true
    for (const job of this.#jobs.values()) job.stop('closed')
    await Promise.all([this.#index.close(), ...[...this.#jobs.values()].map(({ done }) => done)])
  }

  #check (modelId: string): void {
    if (this.#closed) throw new StoreError('closed', 'the store is closed')
    const problem = modelIdProblem(modelId)
    if (problem !== null) throw new StoreError('invalid_model_id', problem)
  }

  /** Whether what the store has answers a start that asks for nothing in particular as it is. */
  #sufficient (modelId: string, { source, revision, allow, variant }: StartOptions): boolean {
    const entry = this.get(modelId)
    const job = this.#jobs.get(modelId)
    if (entry === undefined || (job !== undefined && (job.alive || isPaused(job)))) return false
    if ([source, revision, allow, variant].some((option) => option !== undefined)) return false
    return this.#options.hub === null || !entry.record.source.startsWith('hub:')
  }

  #startOrJoin (setup: DownloadSetup): Download {
    const { modelId } = setup
    const job = this.#jobs.get(modelId)
    if (job?.running === true) {
      if (isSame(job, setup)) return job
      throw new StoreError('download_running', `${modelId} is being downloaded from ` +
        `${job.request.source} with other options; wait for it, or cancel it first`)
    }
    const resumes = job !== undefined && isPaused(job) && isSame(job, setup)
    return this.#begin(resumes ? { ...sequel(job), ...setup } : setup)
  }

  #begin (setup: DownloadSetup): Download {
    const job = this.#track(setup)
    this.#changed(setup.modelId)
    void this.#turns.run(setup.modelId, async () => { await this.#run(job) })
    return job
  }

  #track (setup: DownloadSetup): Download {
    const { modelId } = setup
    const job = new Download(setup, this.#options.clock, () => { this.#changed(modelId) })
    this.#jobs.set(modelId, job)
    return job
  }

  /** One run from beginning to end; never rejects. */
  async #run (job: Download): Promise<void> {
    const { log } = this.#options
    const { modelId } = job
    try {
      const { record: { manifest } } = await fetchModel({ options: this.#options, index: this.#index }, job)
      job.complete(manifest)
      log.info({ modelId, bytes: manifest.totalBytes, source: job.request.source }, 'the store has the model')
    } catch (error) {
      job.blame(error)
      if (job.failure !== null) {
        const { reason, message } = job.failure
        log.warn({ modelId, reason, error: message, source: job.request.source }, 'a download failed')
      }
      await this.#keep(job).catch((cause: unknown) => {
        log.error({ modelId, error: String(cause) }, 'the state of a download cannot be written')
      })
      job.end()
    }
  }

  /** Writes how a run ended beside what it fetched; removes the folder when there is nothing in it. */
  async #keep (job: Download): Promise<void> {
    const { root } = this.#options
    const folder = root.incoming(job.modelId)
    const { stopped } = job
    if (stopped === 'paused') await writeJob(folder, job.record('paused'))
    else if (stopped === 'closed') return
    else if (await bytesIn(folder) === 0) await root.discard(job.modelId)
    else await writeJob(folder, job.record(stopped ?? 'failed'))
  }

  async #stop (modelId: string, why: 'paused' | 'cancelled'): Promise<DownloadStatus> {
    this.#check(modelId)
    const job = this.#jobs.get(modelId)
    if (job === undefined || !(job.alive || isPaused(job))) {
      throw new StoreError('no_download', `there is no download of ${modelId}`)
    }
    job.stop(why)
    const status = await job.done
    if (why !== 'cancelled' || status.status !== 'paused') return status
    return await this.#forsake(job)
  }

  /** Cancels a paused download. */
  async #forsake (job: Download): Promise<DownloadStatus> {
    return await this.#turns.run(job.modelId, async () => {
      if (this.#jobs.get(job.modelId) !== job) return this.status(job.modelId)
      job.forsake()
      await this.#keep(job)
      return job.status()
    })
  }

  /** Takes up the jobs an earlier process left, after removing what nobody goes on with. */
  async #restore (): Promise<void> {
    const { root } = this.#options
    const records = new Map<string, JobRecord>()
    for (const { modelId, directory } of await root.pending()) {
      const record = await readJob(directory, modelId)
      if (record !== undefined) records.set(modelId, record)
    }
    const goesOn = [...records].filter(([, { state }]) => state === 'active' || state === 'paused')
    await this.#sweep(new Set(goesOn.map(([modelId]) => modelId)))
    for (const { modelId, sizeBytes } of await root.pending()) {
      const record = records.get(modelId)
      if (record !== undefined) this.#takeUp(modelId, record, sizeBytes)
    }
  }

  /** Removes what downloads left that nobody went on with for a day. */
  async expire (): Promise<void> {
    const goesOn = [...this.#jobs.values()].filter((job) => job.alive || isPaused(job))
    await this.#sweep(new Set(goesOn.map(({ modelId }) => modelId)))
  }

  async #sweep (live: ReadonlySet<string>): Promise<void> {
    const { root, log } = this.#options
    await root.sweep({ olderThanMs: KEEP_PARTIAL_MS, live }).catch((error: unknown) => {
      log.warn({ path: root.root, error: String(error) }, 'remains of earlier downloads cannot be removed')
    })
  }

  #takeUp (modelId: string, record: JobRecord, keptBytes: number): void {
    const { source, revision, allow, variant, state, selection, startedAt, totalBytes } = record
    const request = { source, revision, allow, variant }
    // One that runs counts from what it finds to be right.
    const bytes = state === 'active' ? 0 : Math.min(keptBytes, totalBytes)
    const setup = { modelId, request, past: { selection, startedAt, totalBytes, bytes } }
    if (state === 'active') this.#begin(setup)
    else this.#track(setup).restore(record)
  }
}

function requestOf ({ source = 'hub', revision, allow, variant }: StartOptions): JobRequest {
  const patterns = allow === undefined ? null : [...allow]
  return { source, revision: revision ?? null, allow: patterns, variant: variant ?? null }
}

const isPaused = (job: Download): boolean => !job.alive && job.status().status === 'paused'

const isSame = (job: Download, { request }: { request: JobRequest }): boolean =>
  JSON.stringify(job.request) === JSON.stringify(request)

/** The next run of the same job. */
function sequel (job: Download): DownloadSetup {
  const { modelId, request, selection } = job
  const { downloadedBytes: bytes, totalBytes, startedAt } = job.status()
  return { modelId, request, past: { selection, bytes, totalBytes, startedAt: startedAt! } }
}

function settled (status: DownloadStatus): Job {
  return { modelId: status.modelId, done: Promise.resolve(status), status: () => status }
}

/** The status of a model without a download. Pure. */
function statusOf (modelId: string, entry: StoreEntry | undefined): DownloadStatus {
  const totalBytes = entry?.totalBytes ?? 0
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
    source: entry?.record.source ?? null,
    revision: entry?.record.manifest.revision ?? null,
    startedAt: null
  }
}
