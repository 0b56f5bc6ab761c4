import type { ModelCard } from '../../../kernel/index.js'
import type { StagingContext } from '../manifest.js'
import { bringFile } from '../files/bring.js'
import { manifestDigest } from '../files/record.js'
import { volumeOf } from '../files/folders.js'
import type { ModelRoot } from '../files/root.js'
import type { Exchange } from '../peers/exchange.js'
import type { Found } from '../peers/finder.js'
import { folderSource } from '../peers/sources.js'
import type { HubClient } from '../hub/client.js'
import type { Evictor } from '../space/evictor.js'
import type { FreeSpace } from '../space/free-space.js'
import { fetchSelection } from '../store/fetch.js'
import type { Derive } from '../store/types.js'
import { fetchModel } from '../transfer/fetch.js'
import { failureOf, Job, JobTable } from '../transfer/job.js'
import { StoreError, type LocalCopy, type ModelContent } from '../types.js'
import type { LocalCopies, Roots } from './local-copies.js'

/** A transfer to this node; without a digest it fetches the store's version. */
export type StageJob = Job<{ digest: string | undefined }>

export interface StagerParts {
  ctx: Pick<StagingContext, 'clear' | 'clock' | 'emit' | 'log' | 'node' | 'raise'>
  random: () => number
  roots: Roots, local: LocalCopies
  evictor: Pick<Evictor, 'makeRoom'>
  freeSpace: FreeSpace, exchange: Exchange, hub: HubClient | null
  find (modelId: string, digest: string | undefined, signal: AbortSignal): Promise<Found>
  inUse (modelId: string, digest: string): boolean
  derive: Derive
  onChange: () => void
}

/** Maximum number of ended jobs kept for /state. */
const REMEMBERED = 64

/** Copies models to this node: one transfer at a time per disk, and at most one per model. */
export class Stager {
  readonly #parts: StagerParts
  /** The latest job for each model and for each requested version. */
  readonly #jobs = new JobTable<StageJob>()
  readonly #arrivals = new WeakMap<StageJob, Promise<ModelCard>>()

  constructor (parts: StagerParts) { this.#parts = parts }

  stage (modelId: string, digest?: string): StageJob {
    if (this.#jobs.closed) throw new Error('the node is stopping')
    const known = this.#jobs.open(modelId).find(({ ask }) => digest === undefined || ask.digest === digest)
    if (known !== undefined) return known
    const { ctx: { clock }, onChange } = this.#parts
    const job: StageJob = new Job(modelId, { digest }, { clock, onChange })
    const key = digest === undefined ? modelId : `${modelId}@${digest}`
    this.#jobs.delete(key)
    this.#jobs.set(key, job)
    for (const [old, { over }] of this.#jobs) if (over && this.#jobs.size > REMEMBERED) this.#jobs.delete(old)
    void this.#run(job)
    onChange()
    return job
  }

  jobs (): StageJob[] { return [...this.#jobs.values()] }

  active (): string[] { return this.#jobs.open().map(({ modelId }) => modelId) }

  /** Stops the model's transfers but keeps fetched bytes. Resolves with true if there was a transfer. */
  async cancel (modelId: string): Promise<boolean> { return await this.#jobs.stop('cancelled', modelId) }

  forget (modelId: string): void {
    for (const [key, job] of this.#jobs) if (job.modelId === modelId && job.over) this.#jobs.delete(key)
    this.#parts.onChange()
  }

  async close (): Promise<void> { await this.#jobs.close() }

  async #run (job: StageJob): Promise<void> {
    const { ctx: { clear, log } } = this.#parts
    const { modelId, signal } = job
    try {
      this.#tell(job, 'pending', 0)
      const arrival = this.#jobs.turns.run(modelId, async () => await this.#bring(job))
      this.#arrivals.set(job, arrival)
      await this.#companions(await arrival, job)
      job.complete()
      clear('download_failed')
      this.#tell(job, 'completed', job.progress.totalBytes)
    } catch (error) {
      job.fail(error)
      if (signal.aborted) log.info({ modelId }, 'a transfer was interrupted')
      else {
        log.error({ modelId, reason: job.failure?.reason, err: error }, 'a transfer failed')
        this.#tellFailure(job)
      }
    }
  }

  #tell ({ modelId, attemptId }: StageJob, status: 'pending' | 'completed', totalBytes: number): void {
    const { emit, node: { nodeId } } = this.#parts.ctx
    emit('NodeDownloadProgress', { nodeId, modelId, attemptId, status, totalBytes })
  }

  /** Reports a failed transfer; cancelled ones are not reported. */
  #tellFailure ({ modelId, attemptId, failure }: StageJob): void {
    const { emit, raise, node: { nodeId } } = this.#parts.ctx
    const { reason, message } = failure!
    // An unknown model is the caller's mistake, not a problem of this node.
    if (reason !== 'model_not_found') raise('download_failed', `${modelId}: ${message}`)
    emit('DownloadFailed', { nodeId, modelId, attemptId, reason, errorMessage: message })
  }

  /** Stages companions, but waits only for their files: two models may be each other's companions. */
  async #companions ({ companions }: ModelCard, job: StageJob): Promise<void> {
    for (const { modelId } of companions) {
      job.signal.throwIfAborted()
      if (modelId === job.modelId) continue
      await this.#arrivals.get(this.stage(modelId))?.catch((error: unknown) => {
        const { reason, message } = failureOf(error)
        throw new StoreError(reason, `its companion ${modelId}: ${message}`)
      })
    }
    job.signal.throwIfAborted()
  }

  async #bring (job: StageJob): Promise<ModelCard> {
    const { local, find, roots: { staged } } = this.#parts
    const { modelId, ask: { digest: wanted }, signal } = job
    signal.throwIfAborted()
    const shipped = local.bundled.get(modelId)
    const here = wanted === undefined ? shipped : local.get(modelId, wanted)
    if (here !== undefined) return this.#present(job, here)
    const copy = wanted === undefined ? staged.copies.get(modelId) : undefined
    const found = await find(modelId, wanted, signal).catch((error: unknown) => {
      // If the store is unreachable, use the complete copy, although the store may have a newer version.
      if (copy === undefined || failureOf(error).reason !== 'store_unreachable') throw error
      return null
    })
    if (copy !== undefined && (found === null || found.from === 'hub')) return this.#present(job, copy)
    if (found === null || found.from === 'hub') return await this.#fromHub(job, found!)
    const item = found.from === 'offered' ? found.item : null
    const content = found.from === 'offered' ? found.item : found
    const same = local.get(modelId, content.digest)
    if (same !== undefined) return this.#present(job, { ...same, card: content.card })
    try {
      return await this.#copy(job, content, item)
    } catch (error) {
      if (failureOf(error).reason !== 'no_source') throw error
      // All sources disappeared during the transfer. Ask the finder again, which may now allow the hub.
      const again = await find(modelId, wanted, signal).catch(() => null)
      if (again?.from !== 'hub') throw error
      return await this.#fromHub(job, again)
    }
  }

  #mayReplace (copy: LocalCopy | undefined): void {
    if (copy === undefined || !this.#parts.inUse(copy.card.modelId, copy.digest)) return
    const message = `${copy.card.modelId} is in use on this node in other versions. ` +
      'Stop an instance that uses one of them, then stage it again.'
    throw new StoreError('model_in_use', message)
  }

  /** The folder for a new version: `staged`, or `beside` while the old version in `staged` is in use. */
  #placeFor (modelId: string): 'staged' | 'beside' {
    const { inUse, roots: { staged, beside } } = this.#parts
    const old = staged.copies.get(modelId)
    if (old === undefined || !inUse(modelId, old.digest)) return 'staged'
    this.#mayReplace(beside.copies.get(modelId))
    return 'beside'
  }

  /** Moves the newer version from `beside` into place once the old one is unused. */
  async settle (modelId: string): Promise<void> {
    const { inUse, roots: { staged, beside } } = this.#parts
    await this.#jobs.turns.run(modelId, async () => {
      const [old, newer] = [staged, beside].map(({ copies }) => copies.get(modelId))
      if (newer === undefined || !staged.usable || (old !== undefined && inUse(modelId, old.digest))) return
      if (!await linkAll(newer, modelId, staged)) return
      await staged.publish(modelId, { manifest: newer.manifest, card: newer.card, source: 'store' })
    })
  }

  #present (job: StageJob, { manifest: { totalBytes, files }, card }: ModelContent): ModelCard {
    job.moved({ bytes: totalBytes, totalBytes, files: files.length, totalFiles: files.length })
    return card
  }

  /** Copies from the local store or over the network; replaces the old copy only when complete. */
  async #copy (job: StageJob, content: ModelContent, item: LocalCopy | null): Promise<ModelCard> {
    const { ctx: { log }, roots } = this.#parts
    const { modelId } = job
    const kind = this.#placeFor(modelId)
    roots[kind].requireUsable()
    // Hard-link only from the store: through a link, svc could change the files of a package.
    const linked = item?.kind === 'store' && await linkAll(item, modelId, roots[kind])
    if (linked) log.info({ modelId }, 'linked a model from the store on the same disk')
    else await this.#transfer(job, roots[kind], content, item)
    const { manifest, card } = content
    await roots[kind].publish(modelId, { manifest, card, source: 'store' })
    return this.#present(job, content)
  }

  async #transfer (
    job: StageJob, root: ModelRoot, content: ModelContent, item: LocalCopy | null
  ): Promise<void> {
    const { manifest, digest } = content
    const { freeSpace, evictor, random, exchange, ctx: { clock, log } } = this.#parts
    const { modelId, signal } = job
    const makeRoom = async (bytes: number): Promise<void> => { await evictor.makeRoom(bytes, modelId) }
    const { totalBytes } = manifest
    await freeSpace.admit({ root, job, totalBytes, digest, makeRoom }, async (into) => {
      const { leave, ...peers } = exchange.join({ ...content, directory: into.folder, modelId })
      const own = item === null ? null : [folderSource(item.directory)]
      try {
        await fetchModel({
          ...into, ...peers, manifest, clock, random, sources: () => own ?? peers.sources()
        })
      } catch (error) {
        if (!signal.aborted) await freeSpace.discardIfFull(root, modelId, log)
        throw error
      } finally { leave() }
    })
  }

  /** Downloads from the hub into this node's cache. Checks the disk space, but evicts nothing. */
  async #fromHub (job: StageJob, { commit, fact, why }: Found & { from: 'hub' }): Promise<ModelCard> {
    const { hub, freeSpace, derive, random, ctx: { clock, log }, roots: { cache: root } } = this.#parts
    const { modelId, signal } = job
    if (hub === null) throw why
    root.requireUsable()
    log.warn({ modelId, why: why.message }, 'the store cannot be reached: downloading from the hub')
    const there = root.copies.get(modelId)
    if (there?.digest === fact.digest) return this.#present(job, there)
    this.#mayReplace(there)
    const { allow = null, variant = null } = fact.choice ?? {}
    const selection = await hub.resolve(modelId, { revision: commit, signal, allow, variant })
    if (selection.totalBytes !== fact.totalBytes) throw otherContent(modelId, commit, hub.url)
    const manifest = await fetchSelection({ root, freeSpace, hub, clock, random }, job, selection)
    if (manifestDigest(manifest) !== fact.digest) {
      await root.discard(modelId)
      throw otherContent(modelId, commit, hub.url)
    }
    const { revision, files } = manifest
    const card = await derive(root.incoming(modelId), { modelId, revision, files })
    await root.publish(modelId, { manifest, card, source: `hub:${hub.url}@${selection.commit}` })
    return card
  }
}

/** Hard-links the files of another copy into the incoming folder; false if it is on another disk. */
async function linkAll (
  { directory, manifest }: Pick<LocalCopy, 'directory' | 'manifest'>, modelId: string, root: ModelRoot
): Promise<boolean> {
  const [from, to] = await Promise.all([volumeOf(directory), volumeOf(root.root)])
  if (from.device !== to.device) return false
  await root.discard(modelId)
  const folder = await root.begin(modelId)
  try {
    for (const { path } of manifest.files) {
      await bringFile(folder, { path, root: directory, inner: path }, 'link')
    }
    return true
  } catch (error) {
    // Some file systems have no hard links, and bind mounts refuse them.
    const { code = '' } = error as NodeJS.ErrnoException
    if (!['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(code)) throw error
    await root.discard(modelId)
    return false
  }
}

/** The error if files from the hub do not have the store's digest, although name and commit match. */
function otherContent (modelId: string, commit: string, url: string): Error {
  const message = `${url} and the store have different files of ${modelId} at commit ${commit}; ` +
    'retry when the store is back'
  return new StoreError('download_failed', message)
}
