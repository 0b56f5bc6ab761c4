import type { RouteRequest } from '../../../kernel/index.js'
import { volumeOf } from '../files/folders.js'
import { HubError } from '../hub/types.js'
import type { HubReason } from '../hub/types.js'
import { modelUrl } from '../peers/sources.js'
import { planCapacity } from '../space/plans.js'
import type { errors } from '../declarations.js'
import type { ModelManager } from '../manager/manager.js'
import { modelIn, refuseVirtual } from './request.js'

/** What `GET …/download/plan` answers. */
export interface DownloadPlan {
  modelId: string
  /** Address of the hub. */
  hub: string
  commit: string
  files: number
  totalBytes: number
  /** Which weights it takes, and their bytes; null where they have no name. */
  variant: string | null
  engine: 'gguf' | 'onnx' | null
  weightsBytes: number
  /** All weights there are, smallest first. */
  variants: { name: string, bytes: number }[]
  /** Of the store, or of where it would be: what may be fetched, and why that is too little. */
  disk: { node: string, roomBytes: number, problem: string | null }
}

const REASONS: Partial<Record<HubReason, keyof typeof errors>> = {
  not_found: 'hub_not_found', bad_request: 'hub_not_found', gated: 'hub_gated',
  refused_format: 'hub_unusable', ambiguous: 'hub_unusable'
}

/** A failure of the hub as a client is told. */
export function asTold (ctx: ModelManager['ctx'], error: unknown, about = ''): unknown {
  if (!(error instanceof HubError)) return error
  return ctx.error(REASONS[error.reason] ?? 'hub_unavailable', `${about}${error.message}.`)
}

/** GET …/download/plan: by the store host, or by this node where there is none. */
export async function plan (
  manager: ModelManager, request: RouteRequest & { query: { revision?: string, variant?: string } }
): Promise<unknown> {
  const { access, ctx, hub, room, store, storePath } = manager
  const { query, signal } = request
  const modelId = modelIn(request)
  refuseVirtual(manager, modelId)
  if (store === null && request.member === null) await access.learned(signal)
  if (store === null && access.known() !== undefined) {
    const path = `${modelUrl(modelId)}/download/plan?${new URLSearchParams({ ...query }).toString()}`
    return await access.forward(request, { method: 'GET', path })
  }
  if (hub === null) throw ctx.error('hub_disabled')
  const { selection: { commit, files, totalBytes }, weights } = await hub.look(modelId, { ...query, signal })
    .catch((error: unknown) => { throw asTold(ctx, error, `${modelId}: `) })
  const taken = new Set(files.map(({ path }) => path))
  const chosen = weights.find(({ paths }) => paths.every((path) => taken.has(path)))
  const { headroomBytes } = room
  const { freeBytes } = await volumeOf(storePath ?? ctx.node.home)
  const fits = planCapacity({ additionalBytes: totalBytes, freeBytes, headroomBytes, idle: [] })
  const roomBytes = Math.max(0, freeBytes - headroomBytes)
  return {
    modelId, hub: hub.url, commit, files: files.length, totalBytes,
    variant: chosen?.name ?? null, engine: chosen?.engine ?? null, weightsBytes: chosen?.bytes ?? totalBytes,
    variants: weights.map(({ name, bytes }) => ({ name, bytes })),
    disk: { node: ctx.node.name, roomBytes, problem: fits.fits ? null : fits.sentence }
  } satisfies DownloadPlan
}
