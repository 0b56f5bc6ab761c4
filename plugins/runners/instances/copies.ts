import type { Bundle, BundledModel } from '../../../kernel/index.js'
import type { Models } from '../../staging/service.js'
import type { Fleet } from './fleet.js'
import type { Assignment } from './shapes.js'

/** The models that ship, and those whose files have been staged on this node. */
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

/** Leases on the files of models that run here, or are to run: a leased copy is not removed. */
export interface ModelLeases {
  /** Throws when the files are being removed. */
  take (assignment: Assignment, digest?: string): void
  release (runnerId: string): void
  /** Tells the plugin `staging` which models have a ready runner here. */
  tell (fleet: Fleet): void
}

/** The model an assignment loads: the version of that digest where one is pinned. */
export function modelOf (
  bundle: Bundle, models: Models | undefined, modelId: string, digest: string | undefined
): BundledModel | undefined {
  return digest === undefined || models === undefined ? bundle.model(modelId) : models.locate(modelId, digest)
}

/** Without the plugin `staging` there is nothing to lease. */
export function createLeases (models: Models | undefined): ModelLeases {
  const held = new Map<string, () => void>()
  let told = new Set<string>()
  return {
    take ({ runnerId, modelId, instanceId }, digest) {
      if (models === undefined || held.has(runnerId)) return
      held.set(runnerId, models.use(modelId, `instance ${instanceId}`, digest))
    },
    release (runnerId) {
      held.get(runnerId)?.()
      held.delete(runnerId)
    },
    tell (fleet) {
      if (models === undefined) return
      const ready = new Set(fleet.members().filter((m) => fleet.ready(m)).map((m) => m.assignment.modelId))
      for (const modelId of told) if (!ready.has(modelId)) models.serving(modelId, false)
      for (const modelId of ready) if (!told.has(modelId)) models.serving(modelId, true)
      told = ready
    }
  }
}

/**
 * Advertises a task on the network while a ready runner of this node serves it. Returns the function that
 * compares again.
 */
export function createAdvertiser (
  fleet: () => Fleet,
  advertise: (tag: string, on: boolean) => void
): () => void {
  let shown = new Set<string>()
  return () => {
    const members = fleet()
      .members()
      .filter((member) => fleet().ready(member))
    const now = new Set(members.flatMap(({ card }) => card?.tasks ?? []))
    for (const tag of now) if (!shown.has(tag)) advertise(tag, true)
    for (const tag of shown) if (!now.has(tag)) advertise(tag, false)
    shown = now
  }
}
