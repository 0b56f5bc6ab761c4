import type { Bundle, BundledModel } from '../cards/bundle.js'
import type { Models } from '../../staging/service.js'
import type { Assignment } from './shapes.js'

export function withCopies (bundle: Bundle, models: Models | undefined): Bundle {
  if (models === undefined) return bundle
  return {
    ...bundle,
    model: (modelId) => models.locate(modelId) ?? bundle.model(modelId),
    models () {
      const shipped = bundle.models()
      const ids = new Set(shipped.map(({ card }) => card.modelId))
      return [...shipped, ...models.located().filter(({ card }) => !ids.has(card.modelId))]
    }
  }
}

/** The model that an assignment loads: the pinned version if a digest is pinned. */
export function modelOf (
  bundle: Bundle, models: Models | undefined, modelId: string, digest: string | undefined
): BundledModel | undefined {
  return digest === undefined || models === undefined ? bundle.model(modelId) : models.locate(modelId, digest)
}

export type ModelLeases = ReturnType<typeof createLeases>

/**
 * Leases on the files of models that run, or will run, on this node, so that leased files are not removed.
 * Without the plugin `staging` leases do nothing.
 */
export function createLeases (models: Models | undefined) {
  const leases = new Map<string, () => void>()
  return {
    /** Leases the model files for a runner. Throws while the files are being removed. */
    take ({ runnerId, modelId, instanceId }: Assignment, digest?: string): void {
      if (models === undefined || leases.has(runnerId)) return
      leases.set(runnerId, models.use(modelId, `instance ${instanceId}`, digest))
    },
    release (runnerId: string): void {
      leases.get(runnerId)?.()
      leases.delete(runnerId)
    }
  }
}

/** Returns a function that calls `change` for each item added or removed since its previous call. */
export function createSetDiff (
  change: (item: string, there: boolean) => void
): (now: Iterable<string>) => void {
  let before: ReadonlySet<string> = new Set()
  return (items) => {
    const now = new Set(items)
    for (const item of before) if (!now.has(item)) change(item, false)
    for (const item of now) if (!before.has(item)) change(item, true)
    before = now
  }
}
