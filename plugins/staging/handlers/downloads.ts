import { relative, join } from 'node:path'
import { kernelError, Reply, type RouteRequest } from '../../../kernel/index.js'
import { manifestDigest } from '../files/record.js'
import { hashTree, openSource } from '../store/folder.js'
import { eachNode } from '../peers/each-node.js'
import { modelUrl } from '../peers/sources.js'
import { parseSource, type Source, type StartOptions } from '../store/types.js'
import type { DownloadStatus } from '../store/download.js'
import { routes } from '../routes.js'
import { apiError, onStoreHost, forward, modelIn, nodeOf, refuseVirtual } from './request.js'
import { failureOf } from '../transfer/job.js'
import type { ModelManager } from '../manager/manager.js'

/** Hides local paths, and errors that may contain them, from callers who are not operators. */
function shownTo ({ caller: { authorities } }: RouteRequest, status: DownloadStatus): DownloadStatus {
  if (status.source?.startsWith('file') !== true || authorities.has('operator')) return status
  const error = status.error === null ? null : 'only operators can see the error'
  return { ...status, source: 'file', error }
}

export const downloads = onStoreHost(routes.downloads, (store, _manager, request) =>
  ({ downloads: store.downloads().map((status) => shownTo(request, status)) }))

export const downloadState = onStoreHost(routes.downloadState, (store, _manager, request) =>
  shownTo(request, store.status(modelIn(request))))

export const pause = onStoreHost(routes.pause, async (store, _manager, request) =>
  shownTo(request, await store.pause(modelIn(request))))

const cancelAtStore = onStoreHost(routes.cancelDownload, async (store, _manager, request) =>
  shownTo(request, await store.cancel(modelIn(request))))

/** Header of a request between nodes that cancels only the receiver's own transfers. */
const TRANSFERS_HEADER = 'x-svc-transfers'
const CANCEL_MS = 10_000

/** Cancels the download into the store, and the transfers to all nodes. */
export async function cancelDownload (manager: ModelManager, request: RouteRequest): Promise<unknown> {
  const modelId = modelIn(request)
  const cancelled = { modelId, status: 'cancelled', progress: 0, error: null }
  if (request.member !== null && request.headers[TRANSFERS_HEADER] !== undefined) {
    return await manager.stager.cancel(modelId) ? cancelled : { ...cancelled, status: 'not_found' }
  }
  const stopped = request.member === null && await cancelTransfers(manager, request, modelId)
  try {
    const answer = await cancelAtStore(manager, request)
    return stopped && answer instanceof Reply && answer.status !== 200 ? cancelled : answer
  } catch (error) {
    // Cancelled transfers make the request a success, even if the store is unreachable or has no download.
    if (stopped) return cancelled
    throw error
  }
}

async function cancelTransfers (
  manager: ModelManager, { caller }: RouteRequest, modelId: string
): Promise<boolean> {
  const answers = await eachNode<boolean>(manager, manager.cluster.nodes(), {
    method: 'DELETE', path: `${modelUrl(modelId)}/download`, headers: { [TRANSFERS_HEADER]: '1' },
    caller, ms: CANCEL_MS,
    here: async () => await manager.stager.cancel(modelId),
    read: (body) => (body as { status?: unknown } | null)?.status === 'cancelled',
    failed: () => false
  })
  return answers.includes(true)
}

export async function download (
  manager: ModelManager, request: RouteRequest & { body: StartOptions | null | undefined }
): Promise<unknown> {
  return await startDownload(manager, request, modelIn(request), request.body ?? {})
}

/**
 * Starts a download; resolves with its status, or with the store host's Reply if it was forwarded. In a
 * cluster without a store, this node becomes the store host first; `storeMade` is then the store's folder.
 */
export async function startDownload (
  manager: ModelManager, request: RouteRequest, modelId: string, options: StartOptions
): Promise<unknown> {
  refuseVirtual(manager, modelId)
  const source = sourceOf(manager, options)
  // Wait if this node is becoming the store host: nodes that know already forward requests to it.
  await manager.making?.catch(() => undefined)
  const asked = manager.store === null && request.member === null
  if (asked) await manager.access.learned(request.signal)
  const path = asked ? await makeStore(manager, request, options) : null
  const answer = await inStore(manager, request, modelId, options, source)
  return path === null ? answer : { ...answer as DownloadStatus, storeMade: path }
}

export function sourceOf (manager: ModelManager, { source = 'hub' }: Pick<StartOptions, 'source'>): Source {
  try { return parseSource(source) } catch (error) { throw apiError(manager, error) }
}

async function inStore (
  manager: ModelManager, request: RouteRequest, modelId: string, options: StartOptions, source: Source
): Promise<unknown> {
  checkMayRead(manager, request, source)
  const { store } = manager
  if (store === null) return await atHost(manager, request, modelId, options, source)
  try {
    const node = source.kind === 'node' ? nodeOf(manager, source.installId) : null
    const from = node === null ? {} : { source: `node:${node.installId}` }
    store.start(modelId, { ...options, ...from }, request.caller.authorities.has('operator'))
    return shownTo(request, store.status(modelId))
  } catch (error) { throw apiError(manager, error) }
}

/** Ids of callers that must be on this machine: `operator` (has operator.token), `local` (loopback). */
const OWN_CALLERS = ['operator', 'local']

/** Throws `missing_grant` if the caller may not read this source on a node's disk. */
export function checkMayRead (
  { options: { importRoots } }: ModelManager, { caller, member }: RouteRequest, source: Source
): void {
  if (source.kind === 'hub' || source.kind === 'node') return
  const refuse = (message: string): Error => kernelError('missing_grant', message, { authority: 'operator' })
  if (!caller.authorities.has('operator')) {
    throw refuse('Only operators may import folders of a node.')
  }
  const own = member === null && caller.mode === 'direct' && OWN_CALLERS.includes(caller.id)
  if (own) return
  if (importRoots.some((root) => !relative(root, source.path).startsWith('..'))) return
  throw refuse('Importing a folder needs the operator.token of this node: run `svc pull` on its ' +
    'machine. To allow other operators, add a parent folder to model_store.import_roots in its svc.yaml.')
}

/** Forwards a download to the store host; exports a local folder first, so that the host can fetch it. */
async function atHost (
  manager: ModelManager, request: RouteRequest, modelId: string, body: StartOptions, source: Source
): Promise<unknown> {
  manager.access.host()
  if (source.kind === 'file') {
    await exportFolder(manager, modelId, { path: source.path, allow: body.allow }, request.signal)
  }
  const here = source.kind === 'file' ? { source: `node:${manager.ctx.node.installId}` } : {}
  return await forward(manager, request, routes.download, { ...body, ...here })
}

/** Lifetime in ms of an exported folder, long enough for the store host to fetch a large one. */
const EXPORT_MS = 24 * 3600_000

async function exportFolder (
  manager: ModelManager, modelId: string,
  { path, allow }: { path: string, allow: StartOptions['allow'] }, signal: AbortSignal
): Promise<void> {
  const { ctx, exchange, clock } = manager
  try {
    const { folder, taken } = await openSource(path, allow)
    const manifest = await hashTree(folder, { modelId, revision: 'local', signal, taken })
    const { revision, files } = manifest
    const card = await manager.derive(folder, { modelId, revision, files })
    const digest = manifestDigest(manifest)
    const end = exchange.exportFolder({ modelId, directory: folder, manifest, digest, card })
    ctx.effect('exported folder', clock.after(EXPORT_MS, end))
  } catch (error) {
    throw ctx.error('import_refused', `${path}: ${(error as Error).message}`)
  }
}

/**
 * Makes this node the store host of a cluster without one, in `<home>/store`. The master decides which node
 * it is, so that concurrent requests create only one. Resolves with the folder, or null if another node is
 * the store host. Throws `missing_grant` unless the caller is an operator, `hub_disabled`,
 * `store_not_configured`, or the master's error; then nothing has changed.
 */
async function makeStore (
  manager: ModelManager, request: RouteRequest, { source = 'hub' }: StartOptions
): Promise<string | null> {
  const { access, ctx, hub } = manager
  if (access.known() !== undefined) return null
  if (access.learning()) throw access.none()
  // Without a hub client the new store would stay empty.
  if (source === 'hub' && hub === null) throw ctx.error('hub_disabled')
  if (!request.caller.authorities.has('operator')) {
    throw kernelError('missing_grant', 'The cluster has no store, and only operators may create one.',
      { authority: 'operator' })
  }
  manager.making ??= become(manager, request).finally(() => { manager.making = null })
  const path = await manager.making
  if (path === null) await access.learned(request.signal, true)
  return path
}

async function become (manager: ModelManager, { caller }: RouteRequest): Promise<string | null> {
  const { ctx, ctx: { log, node: { home, installId }, deps: { config } } } = manager
  const { host } = await ctx.command('claimStore', { installId })
  if (host !== installId) return null
  const path = join(home, 'store')
  try {
    await manager.becomeStore(path, () => { config.keep('model_store.store_path', path, caller) })
  } catch (error) {
    // If this command fails too, rememberStore repeats it with the next master or at the next start.
    await ctx.command('setStore', { installId, is: false }).catch(() => undefined)
    throw ctx.error('store_not_configured', `The store cannot use the folder ${path}: ` +
      `${failureOf(error).message}. Set model_store.store_path to another folder, then restart the node.`)
  }
  log.info({ path }, 'this node is now the store host')
  return path
}
