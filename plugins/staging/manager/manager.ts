import { join } from 'node:path'
import { createLearning } from '../../../kernel/index.js'
import type {
  Bundle, Clock, Cluster, Context, Logger, ModelCard, NodeInfo, Section
} from '../../../kernel/index.js'
import { deriveCard, readHomeCards } from '../cards/index.js'
import { Catalogue, tell, shortCard } from './catalogue.js'
import { Exchange } from '../peers/exchange.js'
import { ModelRoot } from '../files/root.js'
import { overlap, volumeOf } from '../files/folders.js'
import { find } from '../peers/finder.js'
import { createHubClient } from '../hub/client.js'
import type { HubClient } from '../hub/types.js'
import { LocalCopies } from '../staged/local-copies.js'
import type { Roots } from '../staged/local-copies.js'
import type { manifest } from '../manifest.js'
import { Uplink } from '../peers/send-file.js'
import { Room } from '../space/room.js'
import type { CopyEntry, StoreEntryFact } from './catalogue.js'
import type { Judge } from '../service.js'
import { OfferedModels } from '../store/offered.js'
import { Evictor } from '../space/evictor.js'
import { inUseClosure } from '../space/plans.js'
import { Uses } from '../space/uses.js'
import { Stager } from '../staged/stager.js'
import { failureOf } from '../transfer/job.js'
import { StoreAccess } from '../peers/store-access.js'
import { KEEP_PARTIAL_MS, Store } from '../store/store.js'
import type { Derive } from '../store/types.js'
import { ProgressGossip } from '../peers/progress-gossip.js'

export type StagingContext = Context<typeof manifest>

/** Sections whose schemas say less than what is in them. */
interface FactSections {
  modelCopies: Section<CopyEntry>
  storeModels: Section<StoreEntryFact>
  homeCards: Section<ModelCard>
  customCards: Section<ModelCard>
}

/** What the plugin takes from the machine and from svc.yaml, with every path absolute. */
export interface ManagerOptions {
  ctx: StagingContext
  random: () => number
  stagingPath: string
  cachePath: string
  /** Null on a node that is no store host. */
  storePath: string | null
  keepRecentBytes: number
  cleanupOnDeactivate: boolean
  uploadBytesPerSecond: number | null
  headroomBytes: number
  hub: { url: string, redirectHosts: readonly string[], token: string | undefined } | null
}

/** Everything about models on this node; `opened` resolves when the disks have been looked at. */
export class ModelManager {
  readonly options: ManagerOptions
  readonly node: NodeInfo
  readonly clock: Clock
  readonly log: Logger
  readonly cluster: Cluster
  readonly bundle: Bundle
  readonly uses = new Uses()
  readonly room: Room
  readonly uplink: Uplink
  readonly hub: HubClient | null
  readonly access: StoreAccess
  readonly catalogue: Catalogue
  readonly exchange: Exchange
  readonly gossip: ProgressGossip
  readonly local: LocalCopies
  readonly stager: Stager
  readonly roots: Roots
  /** Of each root. In the cache nothing is evicted, but an operator can purge it. */
  readonly evictors: Record<keyof Roots, Evictor>
  /** Set by `open` on a store host. */
  store: Store | null = null
  offered: OfferedModels | null = null
  /** Set by whoever runs models. */
  judge: Judge | null = null
  readonly opened: Promise<void>
  readonly #serving = new Set<string>()
  /** Digests of what the store has, as they were told last. */
  readonly #digests = new Map<string, string>()
  #closing = false

  constructor (options: ManagerOptions) {
    const { ctx, random } = options
    const { clock, log, node, sections, deps: { cluster, bundle } } = ctx
    this.options = options
    this.node = node
    this.clock = clock
    this.log = log
    this.cluster = cluster
    this.bundle = bundle
    this.room = new Room(options.headroomBytes)
    this.uplink = new Uplink(options.uploadBytesPerSecond, clock)
    this.hub = options.hub === null ? null : createHubClient({ ...options.hub, clock, random, log })
    const { stagingPath, cachePath } = options
    this.roots = {
      staged: new ModelRoot({ root: stagingPath, clock }),
      beside: new ModelRoot({ root: join(stagingPath, '.beside'), clock }),
      cache: new ModelRoot({ root: cachePath, clock })
    }
    this.local = new LocalCopies({ bundle, log, roots: this.roots, onChange: () => { this.share() } })
    const { storeHosts } = sections
    const facts: FactSections = sections as never
    this.access = new StoreAccess({
      cluster, storeHosts, storeModels: facts.storeModels, error: ctx.error, learning: createLearning(ctx),
      remembered: () => [...sections.stores.entries()].map(({ key }) => key)
    })
    this.gossip = new ProgressGossip({
      cluster, clock, jobs: () => this.stager.jobs(), nodeId: node.nodeId
    })
    this.catalogue = new Catalogue({
      cluster, local: this.local, sections: facts, receiving: () => this.gossip.receiving()
    })
    this.exchange = new Exchange({ cluster, clock, access: this.access })
    this.evictors = {
      staged: this.#createEvictor('staged'), beside: this.#createEvictor('beside'),
      cache: this.#createEvictor('cache')
    }
    this.stager = this.#createStager()
    this.opened = this.#open().catch((err: unknown) => {
      log.error({ err }, 'models on this node are known only in part')
    })
  }

  /** The card of a model of the catalogue. */
  card (modelId: string): ModelCard | undefined { return this.catalogue.card(modelId) }

  /** What a model needs beside its own files. */
  companionsOf (modelId: string): string[] {
    return this.card(modelId)?.companions.map((companion) => companion.modelId) ?? []
  }

  /** A runner of the model became ready here, or is so no more. */
  serving (modelId: string, ready: boolean): void {
    if (ready) this.#serving.add(modelId)
    else this.#serving.delete(modelId)
    this.share()
  }

  /** Tells the other nodes what this one has. */
  share (): void {
    if (this.#closing) return
    const { sections } = this.options.ctx
    const { nodeId } = this.node
    const own = this.local.all()
    const copies = new Map(own.map((copy): [string, CopyEntry] => [copy.card.modelId, {
      kind: copy.kind, digest: copy.digest, sizeBytes: copy.manifest.totalBytes,
      ready: this.#serving.has(copy.card.modelId)
    }]))
    const left = [
      ...tell(sections.modelCopies, nodeId, copies),
      ...tell(sections.storeModels as never, nodeId, this.offered?.facts() ?? new Map<string, never>())
    ]
    if (left.length > 0) {
      this.log.error({ models: left }, 'too many models: the other nodes are not told of these')
    }
    this.exchange.offer(this.local.versions())
  }

  /** Ends transfers and downloads; what has come stays for the next start. */
  async close (): Promise<void> {
    this.#closing = true
    await this.stager.close()
    await this.opened
    await this.store?.close()
    await this.hub?.close()
    this.exchange.close()
    this.gossip.close()
  }

  /** Never rejects: what cannot be used is reported, the rest works. */
  async #open (): Promise<void> {
    const { ctx, storePath } = this.options
    await this.#separate()
    const { staged, beside, cache } = this.roots
    await this.#prepare(staged)
    beside.usable = staged.usable
    await this.#prepare(beside)
    await this.#prepare(cache)
    await this.local.open()
    if (storePath !== null) await this.#openStore(storePath)
    const since = new Date(this.clock.now()).toISOString()
    const host = new Map(this.offered === null ? [] : [['store', { since }]])
    tell(ctx.sections.storeHosts, this.node.nodeId, host)
    await this.#homeCards()
    this.share()
  }

  /** Folders that overlap would each take the other's models for its own: of two, one is not used. */
  async #separate (): Promise<void> {
    const { storePath } = this.options
    const used = storePath === null ? [] : [storePath]
    for (const root of [this.roots.staged, this.roots.cache]) {
      const clashes = used.map(async (path) => await overlap(path, root.root).catch(() => false))
      const other = used[(await Promise.all(clashes)).indexOf(true)]
      if (other === undefined) { used.push(root.root); continue }
      root.usable = false
      this.#reportUnusable(new Error(`The model folder ${root.root} cannot be used: it overlaps with ` +
        `${other}. ` +
        'Give model_store.store_path, node_cache_path and model_store.hub.cache_path a folder each.'))
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
    const live = new Set(this.stager.active())
    await root.sweep({ olderThanMs: KEEP_PARTIAL_MS, live }).catch((err: unknown) => {
      this.log.warn({ err }, 'what earlier transfers left could not be removed')
    })
  }

  /** Removes what transfers left that nobody went on with for a day. */
  async expire (): Promise<void> {
    for (const root of Object.values(this.roots)) await this.#sweep(root)
    await this.store?.expire()
  }

  /** Bytes of transfers to this node that are not complete, also of those that were broken off. */
  async partialBytes (): Promise<number> {
    const pending = await Promise.all(Object.values(this.roots).map(async (root) => await root.pending()))
    return pending.flat().reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  }

  /** Reports a folder that cannot be used; the rest works on. */
  #reportUnusable (error: unknown): void {
    const { message } = failureOf(error)
    this.log.error({ err: error }, 'a folder of models cannot be used')
    this.options.ctx.raise('staging_unusable', message)
  }

  async #openStore (path: string): Promise<void> {
    const { random } = this.options
    try {
      const root = new ModelRoot({ root: path, clock: this.clock })
      const store = new Store({
        root, random, clock: this.clock, log: this.log, hub: this.hub, room: this.room,
        derive: this.derive, fromNode: this.exchange.fromNode,
        // Also told of progress, which is no news for the other nodes.
        onChange: (modelId) => { if (this.#stored(modelId)) this.share() }
      })
      await store.open()
      this.store = store
      this.offered = new OfferedModels(this.store, this.local, new Date(this.clock.now()).toISOString())
      for (const { modelId, digest } of this.offered.items()) this.#digests.set(modelId, digest)
    } catch (error) {
      this.#reportUnusable(error)
    }
  }

  /** Says when the store has a new model, or other content under a known name. True when there is news. */
  #stored (modelId: string): boolean {
    const item = this.offered?.get(modelId)
    if (item === undefined) return this.#digests.delete(modelId)
    if (this.#digests.get(modelId) === item.digest) return false
    this.#digests.set(modelId, item.digest)
    const { revision, totalBytes } = item.manifest
    this.options.ctx.emit('ModelStored', { nodeId: this.node.nodeId, modelId, revision, totalBytes })
    return true
  }

  /** Cards that were written by hand count more than what is found out from the files. */
  readonly derive: Derive = async (folder, about) => {
    const said = this.catalogue.cards().get(about.modelId)
    const byHand = said !== undefined && (said.origin === 'home' || said.origin === 'custom')
    if (!byHand) return await deriveCard(folder, about)
    const roles = new Map(said.card.files.map(({ path, role }) => [path, role]))
    const files = about.files.map(({ path, size, sha256 }) =>
      ({ path, role: roles.get(path) ?? 'other', bytes: size, ...sha256 === undefined ? {} : { sha256 } }))
    return { ...said.card, files, totalBytes: about.files.reduce((sum, { size }) => sum + size, 0) }
  }

  async #homeCards (): Promise<void> {
    const { cards, problems } = await readHomeCards(join(this.node.home, 'cards'))
    for (const problem of problems) this.log.warn({ problem }, 'a card in the home cannot be used')
    const entries = new Map(cards.map((card) => [card.modelId, shortCard(card)]))
    tell(this.options.ctx.sections.homeCards as never, this.node.nodeId, entries as never)
  }

  /** The content that an instance of the model is to run which is placed now. */
  digestOf (modelId: string): string | null {
    const stored = this.access.entry(modelId)
    if (stored !== undefined) return stored.bundled ? null : stored.digest
    const copies = this.catalogue.copies(modelId).filter(({ kind, live }) => live && kind !== 'receiving')
    return copies.some(({ kind }) => kind === 'bundled') ? null : copies[0]?.digest ?? null
  }

  #createEvictor (kind: keyof Roots): Evictor {
    const { ctx, cleanupOnDeactivate, keepRecentBytes, headroomBytes } = this.options
    const root = this.roots[kind]
    return new Evictor({
      root,
      uses: this.uses, clock: this.clock, log: this.log,
      companionsOf: (modelId) => this.companionsOf(modelId),
      active: () => this.stager.active(),
      // A version beside another has no place of its own once nothing uses it.
      settings: kind === 'beside'
        ? { cleanupOnDeactivate: true, keepRecentBytes: 0, headroomBytes }
        : { cleanupOnDeactivate, keepRecentBytes, headroomBytes },
      volume: async () => await volumeOf(root.root),
      onEvicted: ({ modelId, freedBytes, trigger }) => {
        this.local.removed(kind, modelId)
        if (this.local.get(modelId) === undefined) this.stager.forget(modelId)
        if (trigger === 'purge' || kind === 'beside') return
        ctx.emit('StagedModelEvicted', { nodeId: this.node.nodeId, modelId, freedBytes, trigger })
      }
    })
  }

  #createStager (): Stager {
    const { ctx, random } = this.options
    const { nodeId } = this.node
    return new Stager({
      roots: this.roots, local: this.local, evictor: this.evictors.staged, room: this.room,
      exchange: this.exchange, hub: this.hub, clock: this.clock, random, log: this.log,
      find: async (modelId, digest, signal) => {
        await this.access.learned(this.clock, signal)
        return await find({
          cluster: this.cluster, access: this.access, offered: this.offered, hub: this.hub?.url ?? null,
          copies: (id) => this.catalogue.copies(id), error: ctx.error
        }, modelId, digest, signal)
      },
      derive: async (folder, { modelId, revision, files }) =>
        await this.derive(folder, { modelId, revision, files }),
      onChange: () => { this.gossip.changed() },
      onPending: ({ modelId, attemptId }) => {
        ctx.emit('NodeDownloadProgress', { nodeId, modelId, attemptId, status: 'pending', totalBytes: 0 })
      },
      // A companion is used in whichever version is here.
      inUse: (modelId, digest) => this.uses.needs(modelId, digest) || this.uses.ids().some((used) =>
        used !== modelId && inUseClosure([used], (id) => this.companionsOf(id)).has(modelId)),
      onCompleted: ({ modelId, attemptId, progress: { totalBytes } }) => {
        ctx.clear('download_failed')
        ctx.emit('NodeDownloadProgress', { nodeId, modelId, attemptId, status: 'completed', totalBytes })
      },
      onFailed: ({ modelId, attemptId, failure }) => {
        const { reason, message } = failure!
        // A name that is none is the asker's mistake, not this node's trouble.
        if (reason !== 'model_not_found') ctx.raise('download_failed', `${modelId}: ${message}`)
        ctx.emit('DownloadFailed', { nodeId, modelId, attemptId, reason, errorMessage: message })
      }
    })
  }
}
