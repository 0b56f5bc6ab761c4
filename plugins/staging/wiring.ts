import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import type { RouteRequest, Started } from '../../kernel/index.js'
import { cancelDownload, download, downloads, downloadState, pause } from './handlers/downloads.js'
import { file, manifest as manifestHandler } from './handlers/files.js'
import { add, card, copies, models, removeCustom } from './handlers/models.js'
import { purge, remove } from './handlers/purge.js'
import { stage } from './handlers/stage.js'
import { storage } from './handlers/storage.js'
import { health, registry } from './handlers/store.js'
import { modelsService } from './models-service.js'
import { Plane } from './plane.js'
import { rememberStore } from './remember-store.js'
import { effective } from './settings.js'
import { startupPass } from './startup-pass.js'
import type { manifest } from './manifest.js'
import type { PlaneOptions, StagingContext } from './plane.js'

const GIB = 1024 ** 3
/** How often transfers that nobody goes on with are looked for, ms. */
const EXPIRE_MS = 3600_000
const MIB = 1024 ** 2

/** What the plugin takes from the machine; tests give their own. */
export interface StagingParts {
  env: Readonly<Record<string, string | undefined>>
  random: () => number
  /** What stays free after every transfer, bytes. */
  headroomBytes: number
}

/** Starts the plugin on given parts of the machine. */
export function start (ctx: StagingContext, parts: StagingParts): Started<typeof manifest> {
  const plane = new Plane(optionsOf(ctx, parts))
  ctx.effect('models', async () => { await plane.close() })
  ctx.effect('broken off transfers', ctx.clock.every(EXPIRE_MS, () => {
    void plane.opened.then(async () => { await plane.expire() })
  }))
  startupPass(plane, ctx.deps.session)
  rememberStore(plane, ctx.deps.session)
  ctx.effect('links', ctx.deps.cluster.onPeers(() => { plane.share() }))
  const { customCards, stores } = ctx.sections
  return {
    services: { models: modelsService(plane) },
    state: { downloads: () => plane.telling.view() },
    commands: {
      setStore: ({ installId, is }) => {
        if (is) stores.put(installId, { since: new Date(ctx.clock.now()).toISOString() })
        else stores.remove(installId)
        return { is }
      },
      addCard: ({ card }) => {
        const { modelId } = card as { modelId: string }
        customCards.put(modelId, card)
        return { modelId }
      },
      removeCard: ({ modelId }) => {
        const removed = customCards.get(modelId) !== undefined
        customCards.remove(modelId)
        return { removed }
      }
    },
    routes: routesOf(plane)
  }
}

/** Every handler waits until the disks have been looked at. */
function routesOf (plane: Plane) {
  const on = (handler: (plane: Plane, request: never) => unknown) => async (request: RouteRequest<never>) => {
    await plane.opened
    return await handler(plane, request as never)
  }
  return {
    storage: on(storage), health: on(health), registry: on(registry), downloads: on(downloads),
    download: on(download), downloadState: on(downloadState), pause: on(pause),
    cancelDownload: on(cancelDownload), stage: on(stage), purge: on(purge), remove: on(remove),
    manifest: on(manifestHandler), file: on(file), models: on(models), modelsShort: on(models),
    copies: on(copies), card: on(card), add: on(add), removeCustom: on(removeCustom)
  }
}

/** `~` at the front is the user's home; what is relative counts from the folder of svc.yaml. */
function absolute (path: string, configPath: string | null): string {
  if (path === '~' || path.startsWith('~/')) return join(homedir(), path.slice(1))
  return isAbsolute(path) ? path : resolve(configPath === null ? '.' : join(configPath, '..'), path)
}

function optionsOf (ctx: StagingContext, { env, random, headroomBytes }: StagingParts): PlaneOptions {
  const { model_store: store, node_cache_path: cachePath, node_overrides: overrides } = ctx.settings
  const own = effective(store.staging, cachePath, overrides as Parameters<typeof effective>[2], ctx.node)
  const { home, configPath } = ctx.node
  const at = (path: string | undefined | null, standard: string): string =>
    path == null ? join(home, standard) : absolute(path, configPath)
  const { hub } = store
  return {
    ctx, random, headroomBytes,
    stagingPath: at(own.cachePath, 'staging'),
    cachePath: at(hub.cache_path, 'hub'),
    storePath: store.store_path === undefined ? null : absolute(store.store_path, configPath),
    keepRecentBytes: own.keepRecentGib * GIB,
    cleanupOnDeactivate: own.cleanupOnDeactivate,
    uploadBytesPerSecond: bytesOf(store.upload_mib_per_second),
    hub: hub.enabled
      ? { url: hub.url, redirectHosts: hub.redirect_hosts, token: hubToken(env, hub.url) }
      : null
  }
}

const PUBLIC_HUB = 'huggingface.co'

/**
 * The token for a hub: over https only, and only for the hub it was set for, so that a changed address gets
 * none.
 */
export function hubToken (env: StagingParts['env'], hub: string): string | undefined {
  const { protocol, host } = new URL(hub)
  if (protocol !== 'https:') return undefined
  const own = host === (env['SVC_HUB_TOKEN_HOST'] ?? PUBLIC_HUB) ? env['SVC_HUB_TOKEN'] : undefined
  return own ?? (host === PUBLIC_HUB ? env['HF_TOKEN'] : undefined)
}

const bytesOf = (mib: number | undefined): number | null => mib === undefined ? null : mib * MIB
