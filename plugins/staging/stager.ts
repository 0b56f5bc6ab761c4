import { link, mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Clock, Logger, ModelCard } from '../../kernel/index.js'
import { volumeOf } from './files/index.js'
import type { ModelRoot } from './files/index.js'
import type { Found } from './finder.js'
import { downloadFromHub } from './hub/index.js'
import type { HubClient } from './hub/index.js'
import type { LocalCopies } from './local-copies.js'
import { diskSource } from './net/disk-source.js'
import type { Room } from './room.js'
import type { ShelfItem } from './shelf.js'
import type { Keeper } from './space/index.js'
import { StageJob } from './stage-job.js'
import type { StageFailure } from './stage-job.js'
import type { Exchange } from './exchange.js'
import { fetchModel } from './transfer/index.js'
import type { ChunkSource } from './transfer/index.js'
import type { CopyRecord, ModelManifest } from './types.js'

export interface StagerParts {
  /** Null while the folder cannot be used. */
  staging: () => ModelRoot | null
  cache: () => ModelRoot | null
  local: LocalCopies
  keeper: Keeper | null
  room: Room
  exchange: Exchange
  hub: HubClient | null
  find (modelId: string, signal: AbortSignal): Promise<Found>
  /** Whether something on this node uses the copy of a model. */
  inUse (modelId: string): boolean
  /** Makes the card of what came from the hub. */
  derive (folder: string, manifest: ModelManifest): Promise<ModelCard>
  clock: Clock
  random: () => number
  log: Logger
  /** Something about a job has changed. */
  onChange: () => void
  onPending: (job: StageJob) => void
  onCompleted: (job: StageJob) => void
  onFailed: (job: StageJob, failure: StageFailure) => void
  unusable: () => Error
}

/** What a transfer brings. */
interface Wanted { manifest: ModelManifest, digest: string, card: ModelCard }

/** Ended jobs that are remembered, for /state. */
const REMEMBERED = 64

/** Brings copies of models to this node: one transfer at a time for each disk, a model at most once. */
export class Stager {
  readonly #parts: StagerParts
  readonly #jobs = new Map<string, StageJob>()
  #closed = false

  constructor (parts: StagerParts) { this.#parts = parts }

  /**
   * The transfer of a model; the one under way counts. What it needs beside (companions) comes with it.
   * Throws after `close`.
   */
  stage (modelId: string): StageJob {
    if (this.#closed) throw new Error('the node stops')
    const known = this.#jobs.get(modelId)
    if (known !== undefined && !known.over) return known
    const job = new StageJob(modelId, this.#parts.clock)
    this.#jobs.delete(modelId)
    this.#jobs.set(modelId, job)
    this.#forgetOld()
    void this.#run(job)
    this.#parts.onChange()
    return job
  }

  jobs (): StageJob[] { return [...this.#jobs.values()] }

  /** Models with a transfer under way: no eviction and no purge touches them. */
  active (): string[] { return this.jobs().filter((job) => !job.over).map(({ modelId }) => modelId) }

  /** Forgets a job that has ended: its copy is gone. */
  forget (modelId: string): void {
    if (this.#jobs.get(modelId)?.over === true) this.#jobs.delete(modelId)
    this.#parts.onChange()
  }

  /** Ends every transfer; what has come stays for the next one. */
  async close (): Promise<void> {
    this.#closed = true
    const open = this.jobs().filter((job) => !job.over)
    for (const job of open) job.abort.abort(new Error('the node stops'))
    await Promise.all(open.map(({ ended }) => ended))
  }

  #forgetOld (): void {
    for (const [modelId, job] of this.#jobs) {
      if (this.#jobs.size <= REMEMBERED) return
      if (job.over) this.#jobs.delete(modelId)
    }
  }

  async #run (job: StageJob): Promise<void> {
    const { log, onPending, onCompleted, onFailed, onChange } = this.#parts
    const { modelId, abort: { signal } } = job
    try {
      onPending(job)
      const card = await this.#bring(job)
      job.arrive()
      await this.#companions(card, job)
      job.complete(job.progress.totalBytes)
      onCompleted(job)
    } catch (error) {
      const failure = failureOf(error)
      if (signal.aborted) log.info({ modelId }, 'a transfer was broken off')
      else log.error({ modelId, reason: failure.reason, err: error }, 'a transfer failed')
      job.fail(failure)
      if (!signal.aborted) onFailed(job, failure)
    }
    onChange()
  }

  /** Two models may name each other: only the arrival of a companion's own files is waited for. */
  async #companions ({ companions }: ModelCard, job: StageJob): Promise<void> {
    for (const { modelId } of companions) {
      job.abort.signal.throwIfAborted()
      if (modelId === job.modelId) continue
      const companion = this.stage(modelId)
      await companion.arrived
      if (companion.failure === null) continue
      const { reason, message } = companion.failure
      throw Object.assign(new Error(`its companion ${modelId}: ${message}`), { reason })
    }
    job.abort.signal.throwIfAborted()
  }

  /** Makes sure that a complete copy is here; its card. */
  async #bring (job: StageJob): Promise<ModelCard> {
    const { local, find, unusable } = this.#parts
    const staging = this.#parts.staging()
    const shipped = local.of('bundled', job.modelId)
    if (shipped !== undefined) return this.#there(job, shipped.manifest, shipped.card)
    const copy = local.of('staged', job.modelId)
    const found = await find(job.modelId, job.abort.signal).catch((error: unknown) => {
      // Whether the store has a newer version cannot be said now; this one is whole.
      if (copy === undefined || failureOf(error).reason !== 'store_unreachable') throw error
      return null
    })
    if (copy !== undefined && (found === null || found.from === 'hub')) {
      return this.#there(job, copy.manifest, copy.card)
    }
    if (found === null || found.from === 'hub') return await this.#fromHub(job, found!)
    const { manifest, digest, card } = found.from === 'shelf' ? found.item : found
    if (copy?.digest === digest) return this.#there(job, manifest, card)
    if (copy !== undefined) this.#mayReplace(job.modelId)
    if (staging === null) throw unusable()
    try {
      await this.#copy(job, staging, { manifest, digest, card }, found.from === 'shelf' ? found.item : null)
      return card
    } catch (error) {
      if (failureOf(error).reason !== 'no_source') throw error
      // Everybody who had it is gone. Whether there is a hub to ask is for the finder to say.
      const again = await find(job.modelId, job.abort.signal).catch(() => null)
      if (again?.from !== 'hub') throw error
      return await this.#fromHub(job, again)
    }
  }

  /** A copy that is in use stays as it is. Throws `model_in_use`. */
  #mayReplace (modelId: string): void {
    if (!this.#parts.inUse(modelId)) return
    const message = `${modelId} is in use here and stays as it is; the store has another version. ` +
      'Stop what uses it, then stage it again.'
    throw Object.assign(new Error(message), { reason: 'model_in_use' })
  }

  #there (job: StageJob, { totalBytes, files }: ModelManifest, card: ModelCard): ModelCard {
    job.moved({ bytes: totalBytes, totalBytes, files: files.length, totalFiles: files.length })
    return card
  }

  /** Brings a copy from the store of this node, or over the network; the old one goes when it is whole. */
  async #copy (
    job: StageJob, staging: ModelRoot, { manifest, digest, card }: Wanted, item: ShelfItem | null
  ): Promise<void> {
    const { local, log } = this.#parts
    const record: CopyRecord = { manifest, card, source: 'store', publishedAt: this.#now() }
    const linked = item !== null && await linkAll(item, staging)
    if (linked) log.info({ modelId: job.modelId }, 'linked a model from the store on the same disk')
    else await this.#transfer(job, staging, { manifest, digest, card }, item)
    local.added('staged', await staging.publish(job.modelId, record))
    this.#there(job, manifest, card)
  }

  async #transfer (
    job: StageJob, staging: ModelRoot, model: Wanted, item: ShelfItem | null
  ): Promise<void> {
    const { manifest, digest } = model
    const { room, keeper, clock, random, exchange } = this.#parts
    const folder = staging.incoming(job.modelId)
    const makeRoom = async (bytes: number): Promise<void> => {
      await keeper?.makeRoom(bytes, { keep: [job.modelId] })
    }
    await room.alone(staging.root, job.modelId, job.abort.signal, async () => {
      await makeRoom(manifest.totalBytes - await room.kept(folder, digest))
      const swarm = exchange.join({ ...model, folder, modelId: job.modelId })
      const fixed: ChunkSource[] = item === null ? [] : [diskSource(item)]
      try {
        await fetchModel({
          manifest, folder, clock, random, signal: job.abort.signal, swarm: swarm.state,
          sources: () => [...fixed, ...item === null ? swarm.sources() : []],
          onSources: swarm.onSources,
          onChunk: swarm.got,
          onTake: swarm.take,
          onProgress: (progress) => {
            job.moved(progress)
            this.#parts.onChange()
          },
          space: makeRoom
        })
      } catch (error) {
        if (!job.abort.signal.aborted) await room.letGo(staging, job.modelId, this.#parts.log)
        throw error
      } finally {
        swarm.leave()
      }
    })
  }

  /** Fetches from the hub into the cache of this node: the disk is checked, nothing is evicted for it. */
  async #fromHub (job: StageJob, { commit, why }: Found & { from: 'hub' }): Promise<ModelCard> {
    const { hub, local, room, derive, clock, random, unusable, log } = this.#parts
    const cache = this.#parts.cache()
    if (hub === null) throw why
    if (cache === null) throw unusable()
    const { modelId, abort: { signal } } = job
    log.warn({ modelId, why: why.message }, 'the store cannot be reached: asking the hub')
    const selection = await hub.resolve(modelId, { ...commit === null ? {} : { revision: commit }, signal })
    const there = local.of('cache', modelId)
    if (there?.manifest.revision === selection.commit) return this.#there(job, there.manifest, there.card)
    const folder = cache.incoming(modelId)
    return await room.alone(cache.root, modelId, signal, async () => {
      await room.check(cache.root, selection.totalBytes - await room.kept(folder, null))
      const manifest = await downloadFromHub({
        client: hub, selection, folder, clock, random, signal,
        progress: (progress) => {
          job.moved(progress)
          this.#parts.onChange()
        },
        space: async (bytes) => { await room.check(cache.root, bytes) }
      })
      const card = await derive(folder, manifest)
      const source = `hub:${hub.url}@${selection.commit}`
      local.added('cache', await cache.publish(modelId, { manifest, card, source, publishedAt: this.#now() }))
      return card
    })
  }

  #now (): string { return new Date(this.#parts.clock.now()).toISOString() }
}

/**
 * Links every file of the store's copy into the incoming folder where both are on one disk: no byte is
 * copied. False where they are not.
 */
async function linkAll (item: ShelfItem, staging: ModelRoot): Promise<boolean> {
  const { directory, manifest, bundled, modelId } = item
  if (bundled) return false
  const [from, to] = await Promise.all([volumeOf(directory), volumeOf(staging.root)])
  if (from.device !== to.device) return false
  await staging.discard(modelId)
  const folder = staging.incoming(modelId)
  try {
    for (const { path } of manifest.files) {
      await mkdir(dirname(join(folder, path)), { recursive: true, mode: 0o700 })
      await link(join(directory, path), join(folder, path))
    }
    return true
  } catch (error) {
    // Some file systems have no links, and bind mounts of one device refuse them.
    const { code = '' } = error as NodeJS.ErrnoException
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(code)) throw error
    await staging.discard(modelId)
    return false
  }
}

/** What is said of a failed transfer. */
export function failureOf (error: unknown): StageFailure {
  const { reason, message } = (error ?? {}) as { reason?: unknown, message?: unknown }
  return {
    reason: typeof reason === 'string' ? reason : 'internal',
    message: typeof message === 'string' && message !== '' ? message : String(error)
  }
}
