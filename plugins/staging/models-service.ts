import type { SvcError } from '../../kernel/index.js'
import { unlessAborted } from './abortable.js'
import { errors } from './errors.js'
import type { LocatedModel, Models } from './service.js'
import { ModelGoing } from './space/index.js'
import type { StageFailure } from './stage-job.js'
import type { Plane, StagingContext } from './plane.js'

/** The service by which other plugins find models on this node. */
export function modelsService (plane: Plane): Models {
  const { ctx } = plane.options
  return {
    opened: plane.opened,
    locate: (modelId, digest) => plane.local.get(modelId, digest),
    digest: (modelId) => plane.digestOf(modelId),
    located: () => plane.local.all(),
    card: (modelId) => plane.card(modelId),
    stagedBytes: (modelId) => new Map(plane.catalogue.copies(modelId)
      .filter(({ kind }) => kind !== 'store').map(({ nodeId, sizeBytes }) => [nodeId, sizeBytes])),
    copies: (modelId) => plane.catalogue.copies(modelId),
    allCopies: () => plane.catalogue.copiesByModel(),
    judge (judge) {
      plane.judge = judge
      return () => { plane.judge = null }
    },
    transfers: () => plane.telling.view(),
    silentStore: () => plane.access.silent(),
    cards: () => [...plane.catalogue.cards().values()],
    use (modelId, by, digest) {
      try {
        return plane.uses.use(modelId, by, digest)
      } catch (error) {
        throw error instanceof ModelGoing ? ctx.error('model_going', error.message) : error
      }
    },
    serving: (modelId, ready) => { plane.serving(modelId, ready) },
    async ensure (modelId, digest, signal): Promise<LocatedModel> {
      await plane.opened
      await plane.local.forgetGone(modelId)
      const here = plane.local.get(modelId, digest)
      const companions = plane.companionsOf(modelId).map((id) => plane.local.get(id))
      if (here !== undefined && !companions.includes(undefined)) return here
      const job = plane.stager.stage(modelId, digest)
      // An abort ends the waiting, not the transfer: others may want it too.
      await unlessAborted(job.ended, signal)
      if (job.failure !== null) throw told(ctx, job.failure)
      const arrived = plane.local.get(modelId, digest)
      if (arrived === undefined) throw ctx.error('model_going', `${modelId} was removed again at once.`)
      return arrived
    }
  }
}

/** A failed transfer by its own reason where that has a name in the API. */
function told (ctx: StagingContext, { reason, message }: StageFailure): SvcError {
  // Everybody who had it went away in the middle.
  const name = reason === 'no_source' ? 'store_unreachable' : reason
  const known = Object.keys(errors).find((one) => one === name) as keyof typeof errors | undefined
  return ctx.error(known ?? 'download_failed', message)
}
