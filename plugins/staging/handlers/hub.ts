import type { RouteRequest } from '../../../kernel/index.js'
import { volumeOf } from '../files/folders.js'
import { weightsIn } from '../hub/select-weights.js'
import { HubError } from '../hub/types.js'
import type { HubFile, HubReason, Weights } from '../hub/types.js'
import { lookNear } from '../nearby/look.js'
import { modelUrl } from '../peers/sources.js'
import { planCapacity } from '../space/plans.js'
import type { errors } from '../declarations.js'
import type { ModelManager } from '../manager/manager.js'
import type { Answers } from '../routes.js'
import type { MemoryFit } from '../service.js'
import { StoreError } from '../store/types.js'
import type { Source, StartOptions } from '../store/types.js'
import { checkMayRead, refuseElsewhere, sourceOf } from './downloads.js'
import { modelIn, refuseVirtual } from './request.js'

const REASONS: Partial<Record<HubReason, keyof typeof errors>> = {
  not_found: 'hub_not_found', bad_request: 'hub_not_found', gated: 'hub_gated',
  refused_format: 'hub_unusable', ambiguous: 'hub_unusable'
}

function asTold (ctx: ModelManager['ctx'], error: unknown, about = ''): unknown {
  if (!(error instanceof HubError)) return error
  return ctx.error(REASONS[error.reason] ?? 'hub_unavailable', `${about}${error.message}.`)
}

type PlanQuery = Pick<StartOptions, 'source' | 'revision' | 'variant'> & { allow?: string[] }

/** GET …/download/plan: by the store host, or by this node where there is none. */
export async function plan (
  manager: ModelManager, request: RouteRequest & { query: PlanQuery }
): Promise<unknown> {
  const { access, ctx, room, store, storePath } = manager
  const { query, signal } = request
  const modelId = modelIn(request)
  refuseVirtual(manager, modelId)
  const source = sourceOf(manager, query)
  checkMayRead(manager, request, source)
  if (store === null && request.member === null) await access.learned(signal)
  if (store === null && access.known() !== undefined) {
    refuseElsewhere(manager, source)
    const path = `${modelUrl(modelId)}/download/plan?${wordsOf(query)}`
    return await access.forward(request, { method: 'GET', path })
  }
  const { from, commit, files, weights, unused } = await lookUp(manager, modelId, source, query, signal)
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0)
  const taken = new Set(files.map(({ path }) => path))
  const chosen = weights.find(({ paths }) => paths.every((path) => taken.has(path)))
  const weightsBytes = chosen?.bytes ?? totalBytes
  const fits = (engine: Weights['engine'], bytes: number): MemoryFit | null =>
    manager.memory?.(engine, bytes, modelId) ?? null
  const { headroomBytes } = room
  const { freeBytes } = await volumeOf(storePath ?? ctx.node.home)
  const capacity = planCapacity({
    additionalBytes: totalBytes, freeBytes, headroomBytes, idle: [], setting: 'model_store.store_path'
  })
  const roomBytes = Math.max(0, freeBytes - headroomBytes)
  return {
    modelId, hub: from, commit, files: files.length, totalBytes, unused,
    variant: chosen?.name ?? null, engine: chosen?.engine ?? null, weightsBytes,
    variants: weights.map(({ name, bytes, engine }) => {
      const fit = fits(engine, totalBytes - weightsBytes + bytes)
      return { name, bytes, fits: fit === null ? null : fit.problem === null }
    }),
    disk: { node: ctx.node.name, roomBytes, problem: capacity.fits ? null : capacity.sentence },
    memory: chosen === undefined ? null : fits(chosen.engine, totalBytes)
  } satisfies Answers['plan']
}

const wordsOf = ({ allow = [], ...query }: PlanQuery): string => new URLSearchParams([
  ...Object.entries(query), ...allow.map((pattern): [string, string] => ['allow', pattern])
]).toString()

interface Found {
  from: string, commit: string, files: HubFile[], weights: Weights[], unused: string[]
}

async function lookUp (
  manager: ModelManager, modelId: string, from: Source, { revision, variant, allow }: PlanQuery,
  signal: AbortSignal
): Promise<Found> {
  const { ctx, hub, options: { nearby } } = manager
  const wanted = { variant: variant ?? null, allow: allow ?? null }
  try {
    const named = { ...wanted, revision: revision ?? null }
    if (from.kind === 'ollama' || from.kind === 'cache') {
      const { all, ...near } = await lookNear(nearby, from, modelId, named)
      return { ...near, weights: weightsIn(all) }
    }
    if (from.kind !== 'hub') {
      throw new StoreError('bad_source', `${from.kind} is copied as it is, without a plan`)
    }
    if (hub === null) throw ctx.error('hub_disabled')
    const { selection, weights } = await hub.look(modelId, { ...named, signal })
    return { from: hub.url, commit: selection.commit, files: selection.files, weights, unused: [] }
  } catch (error) {
    if (error instanceof StoreError) {
      const reason = ({ not_found: 'hub_not_found', unusable_model: 'hub_unusable' } as const)[error.reason]
      throw ctx.error(reason ?? 'import_refused', `${error.message}.`)
    }
    throw asTold(ctx, error, `${modelId}: `)
  }
}

/** GET /store/search: by the store host, which is to fetch what is chosen, or by this node without one. */
export async function search (
  manager: ModelManager, request: RouteRequest & { query: { query: string, limit: number } }
): Promise<unknown> {
  const { access, catalogue, ctx, hub, store } = manager
  const { signal } = request
  const query = request.query.query.trim()
  const { limit } = request.query
  if (store === null && request.member === null) await access.learned(signal)
  if (store === null && access.known() !== undefined) {
    const asked = new URLSearchParams({ query, limit: String(limit) }).toString()
    return await access.forward(request, { method: 'GET', path: `/store/search?${asked}` })
  }
  if (hub === null) throw ctx.error('hub_disabled')
  const found = await hub.search(query, { limit, signal })
    .catch((error: unknown) => {
      // A mirror may have the models and no list of them.
      if (!(error instanceof HubError) || error.reason !== 'not_found') throw asTold(ctx, error)
      throw ctx.error('hub_unavailable', `${hub.url} cannot be searched; a model can be pulled by its name.`)
    })
  return {
    hub: hub.url, query,
    models: found.map((one) => ({ ...one, here: catalogue.card(one.modelId) !== undefined }))
  } satisfies Answers['searchHub']
}
