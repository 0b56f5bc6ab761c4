import { join } from 'node:path'
import {
  createSettlingCheck, UntrustedJobs, type Clock, type Cluster, type ModelCard
} from '../../../kernel/index.js'
import { createBundle } from '../../runners/cards/bundle.js'
import type { Bundle } from '../../runners/service.js'
import type { StagingContext } from '../manifest.js'
import { overlap } from '../files/folders.js'
import { ModelRoot } from '../files/root.js'
import type { ModelList } from '../cards/model-list.js'
import { createHubClient, type HubClient } from '../hub/client.js'
import { Exchange } from '../peers/exchange.js'
import { find } from '../peers/finder.js'
import { ProgressGossip } from '../peers/progress-gossip.js'
import { UploadLimiter } from '../peers/send-file.js'
import { StoreAccess } from '../peers/store-access.js'
import type { AvailabilityReader, MemoryPlanner, ModelAlias } from '../service.js'
import { Evictor, type EvictorSettings } from '../space/evictor.js'
import { inUseClosure } from '../space/plans.js'
import { FreeSpace } from '../space/free-space.js'
import { Leases } from '../space/leases.js'
import { LocalCopies, type Roots } from '../staged/local-copies.js'
import { Stager } from '../staged/stager.js'
import { Store } from '../store/store.js'
import type { Derive } from '../store/types.js'
import { failureOf } from '../transfer/job.js'
import type { CopyEntry } from '../types.js'
import { Catalogue, publishEntries, storeFact } from './catalogue.js'
import { ModelLists } from './model-lists.js'

/** With at least this many models, publications are separated by pauses, because each takes a long time. */
const FEW_MODELS = 100
/** Length of a pause between publications, in ms per model. */
const SHARE_MS = 1

/** Module of the job that derives cards; it evaluates untrusted headers, templates and card.yaml files. */
const DERIVE = new URL('../cards/derive.js', import.meta.url).href
/** Limits for deriving a card; real files take 0.1 s, and a card with 16,384 files has 4 MiB. */
const DERIVE_BOUNDS = {
  deadlineMs: 30_000, heapMib: 256, resultBytes: 16 * 2 ** 20, waiting: 256, waitingOfOne: 8
}

export interface ManagerOptions extends EvictorSettings {
  random: () => number
  stagingPath: string
  cachePath: string
  /** Configured store folder; null unless this node starts as the store host. */
  storePath: string | null
  uploadBytesPerSecond: number | null
  hub: { url: string, redirectHosts: readonly string[], token: string | undefined } | null
  hubCache: string | null
  /** Folders from which operators may import remotely; on this machine they may import any folder. */
  importRoots: readonly string[]
}

/** The models of this node; `opened` resolves after the scan of its folders. */
export class ModelManager {
  readonly ctx: StagingContext
  readonly options: ManagerOptions
  readonly clock: Clock
  readonly cluster: Cluster
  readonly leases = new Leases()
  readonly freeSpace: FreeSpace
  readonly uplink: UploadLimiter
  readonly hub: HubClient | null
  readonly access: StoreAccess
  readonly catalogue: Catalogue
  readonly lists: ModelLists
  readonly exchange: Exchange
  readonly gossip: ProgressGossip
  readonly local: LocalCopies
  readonly stager: Stager
  readonly roots: Roots
  readonly evictor: Evictor
  /** The store's folder, even if it is unusable; null unless this node is the store host. */
  storePath: string | null
  /** Set by `open` or `becomeStore` on the store host. */
  store: Store | null = null
  /** Set while this node is becoming the store host. */
  making: Promise<string | null> | null = null
  /** Judges which models can run; set by the plugin that runs models. */
  judge: AvailabilityReader | null = null
  /** Checks whether a model fits in memory; set by the plugin that places models. */
  memory: MemoryPlanner | null = null
  virtual: () => readonly ModelCard[] = () => []
  placed: () => readonly ModelCard[] = () => []
  readonly names = new Set<() => readonly ModelAlias[]>()
  /** Cached answer to GET /v1/models. */
  listed: { readonly atMs: number, list: ModelList | Promise<ModelList> } | undefined
  /** Start of this node, Unix time in ms. */
  readonly startedMs: number
  readonly opened: Promise<void>
  readonly #cards = new UntrustedJobs(DERIVE_BOUNDS)
  readonly #bundle: Bundle
  readonly #serving = new Set<string>()
  /** Digest in the last ModelStored event for each model. */
  readonly #digests = new Map<string, string>()
  /** Whether to publish again after the current pause between publications; null if there is no pause. */
  #changed: boolean | null = null
  #closing = false

  constructor (given: StagingContext, options: ManagerOptions) {
    this.lists = new ModelLists(given)
    const { ctx } = this.lists
    const { clock, log, deps: { cluster, declarations } } = ctx
    const { random, stagingPath, cachePath } = options
    this.ctx = ctx
    this.options = options
    this.storePath = options.storePath
    this.clock = clock
    this.startedMs = clock.now()
    this.cluster = cluster
    const root = (role: keyof Roots, path: string): ModelRoot =>
      Object.assign(new ModelRoot({ root: path, clock, role }), { onChange: () => { this.share() } })
    this.roots = {
      staged: root('staged', stagingPath), beside: root('beside', join(stagingPath, '.beside')),
      cache: root('cache', cachePath)
    }
    this.freeSpace = new FreeSpace(options.headroomBytes)
    this.uplink = new UploadLimiter(options.uploadBytesPerSecond, clock)
    this.hub = options.hub === null ? null : createHubClient({ ...options.hub, clock, random, log })
    this.#bundle = createBundle(declarations)
    this.local = new LocalCopies(ctx, this.roots, this.#bundle)
    this.access = new StoreAccess(ctx, createSettlingCheck(ctx))
    this.gossip = new ProgressGossip(ctx, () => this.stager.jobs())
    this.catalogue = new Catalogue(ctx, this.local, this.gossip)
    this.exchange = new Exchange(ctx, this.access)
    const { roots, local, freeSpace, exchange, hub, derive, leases, companionsOf } = this
    this.evictor = new Evictor({
      roots, leases, companionsOf, clock, log, settings: options, active: () => this.stager.active(),
      onEvicted: ({ modelId, freedBytes, trigger, role }) => {
        if (local.get(modelId) === undefined) this.stager.forget(modelId)
        if (trigger === 'purge' || trigger === 'preview' || role === 'beside') return
        ctx.emit('StagedModelEvicted', { nodeId: ctx.node.nodeId, modelId, freedBytes, trigger })
      }
    })
    this.stager = new Stager({
      ctx, random, roots, local, freeSpace, exchange, hub, derive, evictor: this.evictor,
      find: async (modelId, digest, signal) => {
        await this.access.learned(signal)
        return await find(this, modelId, digest, signal)
      },
      // A lease on the main model names no version of its companion, so every version counts as in use.
      inUse: (modelId, digest) => this.leases.needs(modelId, digest) || this.leases.ids().some((used) =>
        used !== modelId && inUseClosure([used], this.companionsOf).has(modelId)),
      onChange: () => { this.gossip.changed() }
    })
    this.opened = this.#open().catch((err: unknown) => {
      log.error({ err }, 'the models on this node could not all be read')
    })
  }

  readonly companionsOf = (modelId: string): string[] =>
    this.catalogue.card(modelId)?.companions.map((companion) => companion.modelId) ?? []

  serving (modelId: string, ready: boolean): void {
    if (ready) this.#serving.add(modelId)
    else this.#serving.delete(modelId)
    this.share()
  }

  /** Publishes this node's models; if there are many, at most once per pause. */
  share (): void {
    if (this.#closing) return
    if (this.#changed !== null) { this.#changed = true; return }
    const copies = this.local.all().map(({ modelId, kind, digest, manifest }): [string, CopyEntry] =>
      [modelId, {
        kind: kind as CopyEntry['kind'], digest, sizeBytes: manifest.totalBytes,
        ready: this.#serving.has(modelId)
      }])
    const offers = this.store?.offers().map(storeFact) ?? []
    const unpublished = this.lists.publish({
      // Served models first, so that they fit into the document, where changes to `ready` spread at once.
      modelCopies: new Map(copies.sort(([, a], [, b]) => Number(b.ready) - Number(a.ready))),
      storeModels: new Map(offers)
    })
    const { raise, clear } = this.ctx
    if (unpublished === 0) clear('models_not_published')
    else raise('models_not_published', `${unpublished} models are not published to the other nodes.`)
    this.exchange.offer(this.local.versions())
    const count = copies.length + offers.length
    if (count < FEW_MODELS) return
    this.#changed = false
    this.clock.after(count * SHARE_MS, () => {
      const changed = this.#changed === true
      this.#changed = null
      if (changed) this.share()
    })
  }

  async close (): Promise<void> {
    this.#closing = true
    const staged = this.stager.close()
    await this.opened
    const stored = this.store?.close()
    this.#cards.close()
    await Promise.all([staged, stored])
    await this.hub?.close()
    this.exchange.close()
    this.gossip.close()
  }

  /** Opens the folders; never rejects, but reports unusable folders and continues. */
  async #open (): Promise<void> {
    const { storePath } = this
    await this.#separate()
    const { staged, beside, cache } = this.roots
    await this.#prepare(staged)
    beside.usable = staged.usable
    await this.#prepare(beside)
    await this.#prepare(cache)
    await this.local.open()
    this.share()
    if (storePath !== null) {
      await this.#openStore(storePath).then((store) => { this.#useStore(store) },
        (error: unknown) => { this.#reportUnusable(error) })
    }
    this.#tellStore()
    this.share()
  }

  #tellStore (): void {
    const { clock, sections, node: { nodeId } } = this.ctx
    const since = new Date(clock.now()).toISOString()
    publishEntries(sections.storeHosts, nodeId, new Map(this.store === null ? [] : [['store', { since }]]))
  }

  /** Uses only one of two overlapping folders, since each would treat the other's models as its own. */
  async #separate (): Promise<void> {
    const { storePath } = this
    const used = storePath === null ? [] : [storePath]
    for (const root of [this.roots.staged, this.roots.cache]) {
      const clashes = used.map(async (path) => await overlap(path, root.root).catch(() => false))
      const other = used[(await Promise.all(clashes)).indexOf(true)]
      if (other === undefined) { used.push(root.root); continue }
      root.usable = false
      this.#reportUnusable(new Error(`The model folder ${root.root} cannot be used: it overlaps with ` +
        `${other}. ` +
        'Set model_store.store_path, node_cache_path and model_store.hub.cache_path to separate folders.'))
    }
  }

  async #prepare (root: ModelRoot): Promise<void> {
    if (!root.usable) return
    try {
      await root.prepare()
    } catch (error) {
      root.usable = false
      this.#reportUnusable(error)
      return
    }
    await this.#sweep(root)
  }

  async #sweep (root: ModelRoot): Promise<void> {
    await root.expire({ has: (modelId) => this.stager.active().includes(modelId) }, this.ctx.log)
  }

  async expire (): Promise<void> {
    for (const root of Object.values(this.roots)) await this.#sweep(root)
    await this.store?.expire()
  }

  async partialBytes (): Promise<number> {
    const roots = [...Object.values(this.roots), ...this.store === null ? [] : [this.store.root]]
    const pending = await Promise.all(roots.map(async (root) => await root.pending()))
    return pending.flat().reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  }

  #reportUnusable (error: unknown): void {
    this.ctx.log.error({ err: error }, 'a model folder cannot be used')
    this.ctx.raise('staging_unusable', failureOf(error).message)
  }

  async #openStore (path: string): Promise<Store> {
    const { local, freeSpace, hub, derive, ctx, options: { random } } = this
    const { clock, emit, log, node: { nodeId } } = ctx
    const { fromNode } = this.exchange
    const store = new Store({
      root: new ModelRoot({ root: path, clock, role: 'store' }),
      random, clock, log, hub, freeSpace, local, derive, fromNode, hubCache: this.options.hubCache,
      // `onChange` is also called for progress, which is not published.
      onChange: (modelId) => { if (this.#stored(modelId)) this.share() },
      onFailed ({ modelId, attemptId }, { reason, message: errorMessage }) {
        emit('DownloadFailed', { nodeId, modelId, attemptId, reason, errorMessage })
      }
    })
    await store.open()
    return store
  }

  #useStore (store: Store): void {
    this.store = store
    for (const { modelId, digest } of store.offers()) this.#digests.set(modelId, digest)
  }

  /** Makes this node the store host in that folder if `keep`, which saves the setting, succeeds. */
  async becomeStore (path: string, keep: () => void): Promise<void> {
    for (const { root } of Object.values(this.roots)) {
      if (await overlap(path, root)) throw new Error(`it overlaps with the model folder ${root}`)
    }
    const store = await this.#openStore(path)
    try {
      keep()
    } catch (error) {
      await store.close()
      throw error
    }
    this.storePath = path
    this.#useStore(store)
    this.#tellStore()
    this.share()
  }

  /** Emits ModelStored for a new model or new content. Returns whether something changed. */
  #stored (modelId: string): boolean {
    const item = this.store?.offer(modelId)
    if (item === undefined) return this.#digests.delete(modelId)
    if (this.#digests.get(modelId) === item.digest) return false
    this.#digests.set(modelId, item.digest)
    const { revision, totalBytes } = item.manifest
    this.ctx.emit('ModelStored', { nodeId: this.ctx.node.nodeId, modelId, revision, totalBytes })
    return true
  }

  /** Derives a model's card from its files. A hand-written card is kept, except for its list of files. */
  readonly derive: Derive = async (folder, about) => {
    const byHand = this.catalogue.byHand(about.modelId)
    if (byHand === undefined) {
      const args = [folder, about, this.#bundle.cardReaders()]
      return await this.#cards.run<ModelCard>(
        { module: DERIVE, name: 'deriveCard', args, what: 'deriving its card' }, about.modelId)
    }
    const roles = new Map(byHand.files.map(({ path, role }) => [path, role]))
    const files = about.files.map(({ path, size, sha256 }) =>
      ({ path, role: roles.get(path) ?? 'other', bytes: size, ...sha256 === undefined ? {} : { sha256 } }))
    return { ...byHand, files, totalBytes: about.files.reduce((sum, { size }) => sum + size, 0) }
  }

  /** The digest of the version that a new instance loads; null if the model is bundled or unknown. */
  digestOf (modelId: string): string | null {
    const stored = this.access.entry(modelId)
    if (stored !== undefined) return stored.bundled ? null : stored.digest
    const copies = this.catalogue.copies(modelId).filter(({ kind, live }) => live && kind !== 'receiving')
    return copies.some(({ kind }) => kind === 'bundled') ? null : copies[0]?.digest ?? null
  }
}
