import { link } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Logger, ModelCard } from '../../../kernel/index.js'
import { inFolder } from '../files/open.js'
import { KeyedLock } from '../files/queues.js'
import { manifestDigest } from '../files/record.js'
import { volumeOf } from '../files/folders.js'
import type { ModelRoot } from '../files/root.js'
import type { Found } from '../peers/finder.js'
import { downloadFromHub, inTurn } from '../hub/download.js'
import type { HubClient } from '../hub/types.js'
import type { LocalCopies, LocalCopy } from './local-copies.js'
import { diskSource } from '../peers/sources.js'
import type { Room } from '../space/room.js'
import type { OfferedModel } from '../store/offered.js'
import type { Evictor } from '../space/evictor.js'
import { StageJob } from './stage-job.js'
import type { StageFailure } from './stage-job.js'
import type { Exchange } from '../peers/exchange.js'
import { fetchModel } from '../transfer/fetch.js'
import type { ChunkSource } from '../transfer/types.js'
import type { CopyRecord, ModelManifest } from '../types.js'

export interface StagerParts {
  /** Null while the folder cannot be used. */
  staging: () => ModelRoot | null
  /** Where another version goes while the one in `staging` is in use. */
  beside: () => ModelRoot | null
  cache: () => ModelRoot | null
  local: LocalCopies
  evictor: Evictor | null
  room: Room
  exchange: Exchange
  hub: HubClient | null
  find (modelId: string, digest: string | undefined, signal: AbortSignal): Promise<Found>
  /** Whether something on this node uses that content of a model. */
  inUse (modelId: string, digest: string): boolean
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
  /** The last job of each model, and of each content that was asked for. */
  readonly #jobs = new Map<string, StageJob>()
  /** Copies of one model come one after the other. */
  readonly #turns = new KeyedLock()
  #closed = false

  constructor (parts: StagerParts) { this.#parts = parts }

  /**
   * The transfer of a model, of that content if one is named; the one under way counts. What it needs beside
   * (companions) comes with it. Throws after `close`.
   */
  stage (modelId: string, digest?: string): StageJob {
    if (this.#closed) throw new Error('the node stops')
    const known = this.jobs().find((job) =>
      !job.over && job.modelId === modelId && (digest === undefined || job.digest === digest))
    if (known !== undefined) return known
    const job = new StageJob(modelId, this.#parts.clock, digest)
    const key = digest === undefined ? modelId : `${modelId}@${digest}`
    this.#jobs.delete(key)
    this.#jobs.set(key, job)
    this.#forgetOld()
    void this.#run(job)
    this.#parts.onChange()
    return job
  }

  jobs (): StageJob[] { return [...this.#jobs.values()] }

  /** Models with a transfer under way: no eviction and no purge touches them. */
  active (): string[] { return this.jobs().filter((job) => !job.over).map(({ modelId }) => modelId) }

  /** Ends the transfers of a model; what has come stays. Resolves with whether there was one. */
  async cancel (modelId: string): Promise<boolean> {
    const open = this.jobs().filter((job) => !job.over && job.modelId === modelId)
    const why = Object.assign(new Error(`the transfer of ${modelId} was cancelled`), { reason: 'cancelled' })
    for (const job of open) job.abort.abort(why)
    await Promise.all(open.map(({ ended }) => ended))
    return open.length > 0
  }

  /** Forgets a job that has ended: its copy is gone. */
  forget (modelId: string): void {
    for (const [key, job] of this.#jobs) if (job.modelId === modelId && job.over) this.#jobs.delete(key)
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
    for (const [key, job] of this.#jobs) {
      if (this.#jobs.size <= REMEMBERED) return
      if (job.over) this.#jobs.delete(key)
    }
  }

  async #run (job: StageJob): Promise<void> {
    const { log, onPending, onCompleted, onFailed, onChange } = this.#parts
    const { modelId, abort: { signal } } = job
    try {
      onPending(job)
      const card = await this.#turns.run(modelId, async () => await this.#bring(job))
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
    const { local, find } = this.#parts
    const { modelId, digest: wanted, abort: { signal } } = job
    signal.throwIfAborted()
    const shipped = local.of('bundled', modelId)
    const here = wanted === undefined ? shipped : local.get(modelId, wanted)
    if (here !== undefined) return this.#there(job, here.manifest, here.card)
    const copy = wanted === undefined ? local.of('staged', modelId) : undefined
    const found = await find(modelId, wanted, signal).catch((error: unknown) => {
      // Whether the store has a newer version cannot be said now; this one is whole.
      if (copy === undefined || failureOf(error).reason !== 'store_unreachable') throw error
      return null
    })
    if (copy !== undefined && (found === null || found.from === 'hub')) {
      return this.#there(job, copy.manifest, copy.card)
    }
    if (found === null || found.from === 'hub') return await this.#fromHub(job, found!)
    const { manifest, digest, card } = found.from === 'offered' ? found.item : found
    const same = local.get(modelId, digest)
    if (same !== undefined) return this.#there(job, same.manifest, card)
    try {
      await this.#copy(job, { manifest, digest, card }, found.from === 'offered' ? found.item : null)
      return card
    } catch (error) {
      if (failureOf(error).reason !== 'no_source') throw error
      // Everybody who had it is gone. Whether there is a hub to ask is for the finder to say.
      const again = await find(modelId, wanted, signal).catch(() => null)
      if (again?.from !== 'hub') throw error
      return await this.#fromHub(job, again)
    }
  }

  /** A copy that is in use stays as it is. Throws `model_in_use`. */
  #mayReplace (copy: LocalCopy | undefined): void {
    if (copy === undefined || !this.#parts.inUse(copy.card.modelId, copy.digest)) return
    const message = `${copy.card.modelId} is in use here in other versions, which stay as they are. ` +
      'Stop what uses one of them, then stage it again.'
    throw Object.assign(new Error(message), { reason: 'model_in_use' })
  }

  /** Where a copy goes: in place of the one that is there, beside it while that is in use. */
  #placeFor (modelId: string): { kind: 'staged' | 'beside', root: ModelRoot } {
    const { local, inUse, unusable } = this.#parts
    const old = local.of('staged', modelId)
    const kind = old !== undefined && inUse(modelId, old.digest) ? 'beside' : 'staged'
    if (kind === 'beside') this.#mayReplace(local.of('beside', modelId))
    const root = this.#parts[kind === 'beside' ? 'beside' : 'staging']()
    if (root === null) throw unusable()
    return { kind, root }
  }

  /** When nothing uses a model any more, its newer version takes the place of the old one. */
  async settle (modelId: string): Promise<void> {
    const { local, inUse, staging } = this.#parts
    await this.#turns.run(modelId, async () => {
      const [old, newer, root] = [local.of('staged', modelId), local.of('beside', modelId), staging()]
      if (newer === undefined || root === null || (old !== undefined && inUse(modelId, old.digest))) return
      const { card, manifest, directory } = newer
      const record: CopyRecord = { manifest, card, source: 'store', publishedAt: this.#now() }
      if (!await linkAll({ directory, manifest, modelId, bundled: false }, root)) return
      local.added('staged', await root.publish(modelId, record))
    })
  }

  #there (job: StageJob, { totalBytes, files }: ModelManifest, card: ModelCard): ModelCard {
    job.moved({ bytes: totalBytes, totalBytes, files: files.length, totalFiles: files.length })
    return card
  }

  /** Brings a copy from the store of this node, or over the network; the old one goes when it is whole. */
  async #copy (
    job: StageJob, { manifest, digest, card }: Wanted, item: OfferedModel | null
  ): Promise<void> {
    const { local, log } = this.#parts
    const { kind, root: staging } = this.#placeFor(job.modelId)
    const record: CopyRecord = { manifest, card, source: 'store', publishedAt: this.#now() }
    const linked = item !== null && await linkAll(item, staging)
    if (linked) log.info({ modelId: job.modelId }, 'linked a model from the store on the same disk')
    else await this.#transfer(job, staging, { manifest, digest, card }, item)
    local.added(kind, await staging.publish(job.modelId, record))
    this.#there(job, manifest, card)
  }

  async #transfer (
    job: StageJob, staging: ModelRoot, model: Wanted, item: OfferedModel | null
  ): Promise<void> {
    const { manifest, digest } = model
    const { room, evictor, clock, random, exchange } = this.#parts
    const folder = staging.incoming(job.modelId)
    const makeRoom = async (bytes: number): Promise<void> => {
      await evictor?.makeRoom(bytes, { keep: [job.modelId] })
    }
    await room.alone(staging.root, job.modelId, job.abort.signal, async () => {
      await makeRoom(manifest.totalBytes - await room.kept(folder, digest))
      await staging.begin(job.modelId)
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
  async #fromHub (job: StageJob, { commit, fact, why }: Found & { from: 'hub' }): Promise<ModelCard> {
    const { hub, local, room, derive, clock, random, unusable, log } = this.#parts
    const cache = this.#parts.cache()
    if (hub === null) throw why
    if (cache === null) throw unusable()
    const { modelId, abort: { signal } } = job
    log.warn({ modelId, why: why.message }, 'the store cannot be reached: asking the hub')
    const there = local.of('cache', modelId)
    if (there?.digest === fact.digest) return this.#there(job, there.manifest, there.card)
    this.#mayReplace(there)
    const { allow = null, variant = null } = fact.choice ?? {}
    const selection = await hub.resolve(modelId, {
      revision: commit, signal, ...allow === null ? {} : { allow }, ...variant === null ? {} : { variant }
    })
    if (selection.totalBytes !== fact.totalBytes) throw otherContent(modelId, commit, hub.url)
    const folder = cache.incoming(modelId)
    return await inTurn(clock, signal, async () => await room.alone(cache.root, modelId, signal, async () => {
      await room.check(cache.root, selection.totalBytes - await room.kept(folder, null))
      await cache.begin(modelId)
      const manifest = await downloadFromHub({
        client: hub, selection, folder, clock, random, signal,
        onProgress: (progress) => {
          job.moved(progress)
          this.#parts.onChange()
        },
        space: async (bytes) => { await room.check(cache.root, bytes) }
      })
      if (manifestDigest(manifest) !== fact.digest) {
        await cache.discard(modelId)
        throw otherContent(modelId, commit, hub.url)
      }
      const card = await derive(folder, manifest)
      const source = `hub:${hub.url}@${selection.commit}`
      local.added('cache', await cache.publish(modelId, { manifest, card, source, publishedAt: this.#now() }))
      return card
    }))
  }

  #now (): string { return new Date(this.#parts.clock.now()).toISOString() }
}

/**
 * Links every file of the store's copy into the incoming folder where both are on one disk: no byte is
 * copied. False where they are not.
 */
async function linkAll (
  item: Pick<OfferedModel, 'directory' | 'manifest' | 'bundled' | 'modelId'>, staging: ModelRoot
): Promise<boolean> {
  const { directory, manifest, bundled, modelId } = item
  if (bundled) return false
  const [from, to] = await Promise.all([volumeOf(directory), volumeOf(staging.root)])
  if (from.device !== to.device) return false
  await staging.discard(modelId)
  const folder = await staging.begin(modelId)
  try {
    for (const { path } of manifest.files) {
      const steps = path.split('/')
      const name = steps.pop()!
      await inFolder(folder, steps, true, async (inner) => {
        await link(join(directory, path), join(inner.path, name))
      })
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

/** A name and a commit are no identity: the hub answers for the digest that the store named. */
function otherContent (modelId: string, commit: string, url: string): Error {
  const message = `${url} has other files of ${modelId} at commit ${commit} than the store; ` +
    'the store must be back for this one'
  return Object.assign(new Error(message), { reason: 'download_failed' })
}

/** What is said of a failed transfer. */
export function failureOf (error: unknown): StageFailure {
  const { reason, message } = (error ?? {}) as { reason?: unknown, message?: unknown }
  return {
    reason: typeof reason === 'string' ? reason : 'internal',
    message: typeof message === 'string' && message !== '' ? message : String(error)
  }
}
