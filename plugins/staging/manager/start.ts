import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import {
  delay, raceAbort, waitForCallback, type Context, type ModelCard, type RouteRequest, type Session,
  type PluginParts
} from '../../../kernel/index.js'
import { cancelDownload, download, downloads, downloadState, pause } from '../handlers/downloads.js'
import { file, manifest as manifestHandler } from '../handlers/files.js'
import { add, card, copies, model, models, modelsShort, removeCustom } from '../handlers/models.js'
import { plan, search } from '../handlers/hub.js'
import { purge, remove, health, registry, room, storage, withoutRoom } from '../handlers/storage.js'
import { apiError, failureError } from '../handlers/request.js'
import { stage } from '../handlers/stage.js'
import type { manifest, StagingContext } from '../manifest.js'
import type { LocatedModel, Models } from '../service.js'
import { effective } from '../settings.js'
import { failureOf } from '../transfer/job.js'
import { ModelManager, type ManagerOptions } from './manager.js'

const GIB = 1024 ** 3
/** Interval in ms at which partial transfers are checked for expiry. */
const EXPIRE_MS = 3600_000
const MIB = 1024 ** 2

export interface StagingParts {
  env: Readonly<Record<string, string | undefined>>
  random: () => number
  headroomBytes: number
}

export function start (context: Context<typeof manifest>, parts: StagingParts): PluginParts<typeof manifest> {
  const ctx = context as unknown as StagingContext
  const manager = new ModelManager(ctx, optionsOf(ctx, parts))
  ctx.effect('models', async () => { await manager.close() })
  ctx.effect('broken off transfers', ctx.clock.every(EXPIRE_MS, () => {
    void manager.opened.then(async () => { await manager.expire() })
  }))
  startupPass(manager, ctx.deps.session)
  rememberStore(manager, ctx.deps.session)
  ctx.effect('links', ctx.deps.cluster.onPeers(() => { manager.share() }))
  ctx.effect('list of models', ctx.deps.state.onChange(() => { manager.listed = undefined }))
  const { customCards, stores } = ctx.sections
  return {
    services: { models: modelsService(manager) },
    state: { downloads: () => manager.gossip.view() },
    commands: {
      claimStore: ({ installId }) => {
        const host = manager.access.known()?.installId ?? installId
        if (host === installId) stores.put(installId, { since: new Date(ctx.clock.now()).toISOString() })
        return { host }
      },
      setStore: ({ installId, is }) => {
        if (is) stores.put(installId, { since: new Date(ctx.clock.now()).toISOString() })
        else stores.remove(installId)
        return { is }
      },
      addCard: ({ card }) => {
        customCards.put(card.modelId, card as ModelCard)
        return { modelId: card.modelId }
      },
      removeCard: ({ modelId }) => {
        const removed = customCards.get(modelId) !== undefined
        customCards.remove(modelId)
        return { removed }
      }
    },
    routes: routesOf(manager)
  }
}

/** The route handlers, each of which first waits until the folders have been scanned. */
function routesOf (manager: ModelManager) {
  let isOpen = false
  manager.opened.then(() => { isOpen = true }, () => {})
  const on = (handler: (manager: ModelManager, request: never) => unknown) =>
    (request: RouteRequest<never>) => isOpen
      ? handler(manager, request as never)
      : manager.opened.then(() => handler(manager, request as never))
  return {
    storage: on(storage), health: on(health), registry: on(registry), downloads: on(downloads),
    download: on(download), plan: on(plan), searchHub: on(search), downloadState: on(downloadState),
    pause: on(pause), cancelDownload: on(cancelDownload), stage: on(stage), room: on(room),
    purge: on(purge), remove: on(remove), manifest: on(manifestHandler), file: on(file),
    models: on(models), model: on(model), modelsShort: on(modelsShort), copies: on(copies),
    rest: on(({ lists }) => lists.answer()), card: on(card), add: on(add), removeCustom: on(removeCustom)
  }
}

/** Expands a leading `~`; other relative paths start at the folder of svc.yaml. */
function absolute (path: string, configPath: string | null): string {
  if (path === '~' || path.startsWith('~/')) return join(homedir(), path.slice(1))
  return isAbsolute(path) ? path : resolve(configPath === null ? '.' : join(configPath, '..'), path)
}

function optionsOf (ctx: StagingContext, { env, random, headroomBytes }: StagingParts): ManagerOptions {
  const { model_store: store, node_cache_path: cachePath, node_overrides: overrides } = ctx.settings
  const own = effective({ ...store.staging, node_cache_path: cachePath },
    overrides as Record<string, object>, ctx.node)
  const { home, configPath } = ctx.node
  const at = (path: string | undefined | null, standard: string): string =>
    path == null ? join(home, standard) : absolute(path, configPath)
  const { hub } = store
  return {
    random, headroomBytes,
    stagingPath: at(own.node_cache_path, 'staging'),
    cachePath: at(hub.cache_path, 'hub'),
    storePath: store.store_path === undefined ? null : absolute(store.store_path, configPath),
    keepRecentBytes: own.staging_keep_recent_gb * GIB,
    cleanupOnDeactivate: own.cleanup_on_deactivate,
    uploadBytesPerSecond: bytesOf(store.upload_mib_per_second),
    hubCache: hubCacheOf(env),
    importRoots: store.import_roots.map((root) => absolute(root, configPath)),
    hub: hub.enabled
      ? { url: hub.url, redirectHosts: hub.redirect_hosts, token: hubToken(env, hub.url) }
      : null
  }
}

/** Cache folder of the hub's own tools, according to their environment variables. */
export function hubCacheOf (env: StagingParts['env']): string | null {
  const { HOME, XDG_CACHE_HOME, HF_HOME, HF_HUB_CACHE } = env
  const cache = XDG_CACHE_HOME ?? (HOME === undefined ? undefined : join(HOME, '.cache'))
  const hub = HF_HOME ?? (cache === undefined ? undefined : join(cache, 'huggingface'))
  return HF_HUB_CACHE ?? (hub === undefined ? null : join(hub, 'hub'))
}

const PUBLIC_HUB = 'huggingface.co'

/** The token to send to a hub; only over https, and only to the host for which it was set. */
export function hubToken (env: StagingParts['env'], hub: string): string | undefined {
  const { protocol, host } = new URL(hub)
  if (protocol !== 'https:') return undefined
  const own = host === (env['SVC_HUB_TOKEN_HOST'] ?? PUBLIC_HUB) ? env['SVC_HUB_TOKEN'] : undefined
  return own ?? (host === PUBLIC_HUB ? env['HF_TOKEN'] : undefined)
}

const bytesOf = (mib: number | undefined): number | null => mib === undefined ? null : mib * MIB

export function modelsService (manager: ModelManager): Models {
  const { ctx } = manager
  const hook = <K extends 'judge' | 'memory' | 'virtual' | 'placed'>(name: K) =>
    (value: NonNullable<ModelManager[K]>) => {
      const before = manager[name]
      const set = (given: ModelManager[K]): void => {
        manager[name] = given
        manager.listed = undefined
      }
      set(value)
      return () => { set(before) }
    }
  return {
    opened: manager.opened,
    locate: (modelId, digest) => manager.local.get(modelId, digest),
    digest: (modelId) => manager.digestOf(modelId),
    located: () => manager.local.all(),
    card: (modelId) => manager.catalogue.card(modelId),
    stagedBytes: (modelId) => new Map(manager.catalogue.copies(modelId)
      .filter(({ kind }) => kind !== 'store').map(({ nodeId, sizeBytes }) => [nodeId, sizeBytes])),
    copies: (modelId) => manager.catalogue.copies(modelId),
    allCopies: () => manager.catalogue.copiesByModel(),
    withoutRoom: async (modelId, nodeIds) => await withoutRoom(manager, modelId, nodeIds),
    judge: hook('judge'), memory: hook('memory'), virtual: hook('virtual'), placed: hook('placed'),
    isVirtual: (modelId) => manager.virtual().some((card) => card.modelId === modelId),
    names (names) {
      manager.names.add(names)
      manager.listed = undefined
      return () => {
        manager.names.delete(names)
        manager.listed = undefined
      }
    },
    transfers: () => manager.gossip.view(),
    silentStore: () => manager.access.silent(),
    cards: () => [...manager.catalogue.cards().values()],
    use (modelId, by, digest) {
      try {
        return manager.leases.use(modelId, by, digest)
      } catch (error) { throw apiError(manager, error) }
    },
    serving: (modelId, ready) => { manager.serving(modelId, ready) },
    async ensure (modelId, digest, signal): Promise<LocatedModel> {
      await manager.opened
      await manager.local.forgetGone(modelId)
      const here = manager.local.get(modelId, digest)
      const companions = manager.companionsOf(modelId).map((id) => manager.local.get(id))
      if (here !== undefined && !companions.includes(undefined)) return here
      const job = manager.stager.stage(modelId, digest)
      // An abort ends only this wait, because other callers may be waiting for the same transfer.
      await (signal === undefined ? job.ended : raceAbort(job.ended, signal))
      if (job.failure !== null) throw failureError(ctx, job.failure)
      const arrived = manager.local.get(modelId, digest)
      if (arrived === undefined) throw ctx.error('model_going', `${modelId} was removed again.`)
      return arrived
    }
  }
}

/**
 * Makes the cluster remember whether this node is the store host, since a node that starts while the store is
 * down would otherwise assume there is no store. Raises a health problem if another node is a store host.
 */
export function rememberStore (manager: ModelManager, session: Session): void {
  const { ctx } = manager
  const { log, node: { installId } } = ctx
  const tell = (): void => {
    // The master is still deciding which node becomes the store host.
    if (manager.making !== null) return
    const is = manager.storePath !== null
    const others = is ? manager.access.all().filter(({ self }) => !self) : []
    if (others.length > 0) ctx.raise('second_store', others.map(({ name }) => name).join(', '))
    else ctx.clear('second_store')
    const known = ctx.sections.stores.get(installId) !== undefined
    if (session.masterNodeId === null || known === is) return
    ctx.command('setStore', { installId, is }).catch((error: unknown) => {
      log.warn({ error: failureOf(error).message }, 'the cluster could not record this store yet')
    })
  }
  ctx.effect('store host', session.onChange(tell))
  ctx.sections.stores.observe(tell)
  // Wait until every plugin has started, because commands are registered only then.
  ctx.effect('store host at start', ctx.clock.after(0, tell))
}

/** Time in ms for runners to lease their models once this node has a master. */
const SETTLE_MS = 15_000

/**
 * Records uses and evicts idle copies. The first pass waits until this node's placements are known, since
 * until then every copy looks idle. An instance that ends earlier gets its own pass after the first one.
 */
export function startupPass (manager: ModelManager, session: Session): void {
  const { ctx, evictor, stager, leases } = manager
  const { clock, log } = ctx
  const over = new AbortController()
  const first = async (): Promise<void> => {
    while (session.masterNodeId === null && !over.signal.aborted) {
      await waitForCallback((fn) => session.onChange(fn), over.signal)
    }
    await delay(clock, SETTLE_MS, over.signal)
    await manager.opened
    over.signal.throwIfAborted()
    await evictor.startup()
  }
  const passed = first()
  const ended = async (modelId: string): Promise<void> => {
    await passed
    if (over.signal.aborted || leases.has(modelId)) return
    await stager.settle(modelId)
    await evictor.deactivated(modelId)
  }
  const failed = (err: unknown): void => {
    if (!over.signal.aborted) log.error({ err }, 'an eviction pass failed')
  }
  ctx.effect('eviction passes', () => { over.abort() })
  ctx.effect('last uses', evictor.watch())
  ctx.effect('eviction', leases.onIdle((modelId) => { ended(modelId).catch(failed) }))
  // At startup, replace copies that are no longer in use with the newer versions in the folder `beside`.
  const settle = async (): Promise<void> => {
    await passed
    for (const { modelId } of await manager.roots.beside.list()) await ended(modelId)
  }
  settle().catch(failed)
}
