import type { RouteRequest } from '../../../kernel/index.js'
import { volumeOf } from '../files/folders.js'
import { PathError } from '../files/names.js'
import { weightsIn, type Choosable } from '../hub/select-weights.js'
import { HubError, type HubReason, type Weights } from '../hub/types.js'
import type { errors } from '../declarations.js'
import type { ModelManager } from '../manager/manager.js'
import { routes, type Answers } from '../routes.js'
import type { MemoryFit } from '../service.js'
import { openSource } from '../store/folder.js'
import { StoreError } from '../types.js'
import { failureOf } from '../transfer/job.js'
import type { Source, StartOptions } from '../store/types.js'
import { checkMayRead, sourceOf } from './downloads.js'
import { forward, modelIn, refuseVirtual } from './request.js'

const REASONS: Partial<Record<HubReason, keyof typeof errors>> = {
  not_found: 'hub_not_found', bad_request: 'hub_not_found', gated: 'hub_gated',
  refused_format: 'hub_unusable', ambiguous: 'hub_unusable'
}

function asTold (ctx: ModelManager['ctx'], error: unknown, about = ''): unknown {
  if (!(error instanceof HubError)) return error
  return ctx.error(REASONS[error.reason] ?? 'hub_unavailable', `${about}${error.message}.`)
}

type PlanQuery = Pick<StartOptions, 'source' | 'revision' | 'variant'> & { allow?: string[] }

/** Plans a download without starting it, on the store host or, in a cluster without one, on this node. */
export async function plan (
  manager: ModelManager, request: RouteRequest & { query: PlanQuery }
): Promise<unknown> {
  const { access, store } = manager
  const { query, signal } = request
  const modelId = modelIn(request)
  refuseVirtual(manager, modelId)
  const source = sourceOf(manager, query)
  checkMayRead(manager, request, source)
  if (store === null && request.member === null) await access.learned(signal)
  const elsewhere = store === null && access.known() !== undefined
  if (elsewhere && source.kind !== 'file') return await forward(manager, request, routes.plan)
  const { from, commit, files, weights } = await lookUp(manager, modelId, source, query, signal)
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0)
  const taken = new Set(files.map(({ path }) => path))
  const chosen = weights.find(({ paths }) => paths.every((path) => taken.has(path)))
  const weightsBytes = chosen?.bytes ?? totalBytes
  const fits = (engine: Weights['engine'], bytes: number): MemoryFit | null =>
    manager.memory?.(engine, bytes, modelId) ?? null
  return {
    modelId, hub: from, commit, files: files.length, totalBytes,
    variant: chosen?.name ?? null, engine: chosen?.engine ?? null, weightsBytes,
    variants: weights.map(({ name, bytes, engine }) => {
      const fit = fits(engine, totalBytes - weightsBytes + bytes)
      return { name, bytes, fits: fit === null ? null : fit.problem === null }
    }),
    disk: elsewhere ? await diskOfHost(manager, request) : await diskHere(manager, totalBytes),
    memory: chosen === undefined ? null : fits(chosen.engine, totalBytes)
  } satisfies Answers['plan']
}

type Disk = Answers['plan']['disk']

async function diskHere ({ ctx, freeSpace, storePath }: ModelManager, totalBytes: number): Promise<Disk> {
  const root = storePath ?? ctx.node.home
  const roomBytes = Math.max(0, (await volumeOf(root)).freeBytes - freeSpace.headroomBytes)
  const problem = await freeSpace.check({ root, setting: 'model_store.store_path' }, totalBytes)
    .then(() => null, (error: unknown) => failureOf(error).message)
  return { node: ctx.node.name, roomBytes, problem }
}

/** The disk of the store host, which checks again whether the files fit before it copies them. */
async function diskOfHost (manager: ModelManager, request: RouteRequest): Promise<Disk> {
  const { access, ctx, freeSpace } = manager
  const { status, body } = await forward(manager, { ...request, query: {} }, routes.health)
  if (status !== 200) throw ctx.error('store_unreachable')
  const { freeBytes } = body as Answers['health']
  return {
    node: access.host().name, roomBytes: Math.max(0, freeBytes - freeSpace.headroomBytes), problem: null
  }
}

interface Found { from: string, commit: string, files: Choosable[], weights: Weights[] }

async function lookUp (
  manager: ModelManager, modelId: string, from: Source, { revision, variant, allow }: PlanQuery,
  signal: AbortSignal
): Promise<Found> {
  const { ctx, hub } = manager
  const wanted = { variant: variant ?? null, allow: allow ?? null }
  try {
    const named = { ...wanted, revision: revision ?? null }
    if (from.kind === 'file') {
      const { folder, seen } = await openSource(from.path, allow)
      const files = [...seen].map(([path, { size }]) => ({ path, size }))
      return { from: folder, commit: revision ?? 'local', files, weights: weightsIn(files) }
    }
    if (from.kind !== 'hub') {
      throw new StoreError('bad_source', `${from.kind} is copied unchanged, so it has no plan`)
    }
    if (hub === null) throw ctx.error('hub_disabled')
    const { selection, weights } = await hub.look(modelId, { ...named, signal })
    return { from: hub.url, commit: selection.commit, files: selection.files, weights }
  } catch (error) {
    if (error instanceof StoreError || error instanceof PathError) {
      const reason = ({ not_found: 'hub_not_found', unusable_model: 'hub_unusable' } as const)[error.reason]
      throw ctx.error(reason ?? 'import_refused', `${error.message}.`)
    }
    throw asTold(ctx, error, `${modelId}: `)
  }
}

/** Searches the hub from the store host, because it downloads the models; without one, from this node. */
export async function search (
  manager: ModelManager, request: RouteRequest & { query: { query: string, limit: number } }
): Promise<unknown> {
  const { access, catalogue, ctx, hub, store } = manager
  const { signal } = request
  const query = request.query.query.trim()
  const { limit } = request.query
  if (store === null && request.member === null) await access.learned(signal)
  const elsewhere = store === null && access.known() !== undefined
  if (elsewhere) return await forward(manager, request, routes.searchHub)
  if (hub === null) throw ctx.error('hub_disabled')
  const found = await hub.search(query, { limit, signal })
    .catch((error: unknown) => {
      // A mirror that serves models but has no search answers `not_found`.
      if (!(error instanceof HubError) || error.reason !== 'not_found') throw asTold(ctx, error)
      throw ctx.error('hub_unavailable', `${hub.url} does not support search; pull the model by its name.`)
    })
  return {
    hub: hub.url, query,
    models: found.map((one) => ({ ...one, here: catalogue.card(one.modelId) !== undefined }))
  } satisfies Answers['searchHub']
}
