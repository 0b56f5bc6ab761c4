import type { RoleModels } from '../../placement/service.js'
import { takesTools, type Models } from '../../staging/service.js'

/** `systemRole` of the instance that words the answers. */
export const ROLE = 'steward'

export const AUTO = 'auto'

export interface ChoiceParts {
  /** Undefined if no plugin provides the list of models. */
  readonly models: Pick<Models, 'cards' | 'allCopies'> | undefined
  isStopped (modelId: string): boolean
}

/**
 * Models that may word the answers, best first: the configured model or, with `auto`, all chat models that
 * accept tools, have a copy on a live node and have not been stopped by an operator, largest first.
 */
export function wantedModels (setting: string | null, { models, isStopped }: ChoiceParts): RoleModels {
  if (setting === null) return { models: [], waits: false }
  if (setting !== AUTO) return { models: [setting], waits: true }
  if (models === undefined) return { models: [], waits: false }
  const copies = models.allCopies()
  const found = models.cards().map(({ card }) => card)
    .filter((card) => takesTools(card) && !isStopped(card.modelId) &&
      copies.get(card.modelId)?.some(({ live }) => live) === true)
    .sort((a, b) => b.totalBytes - a.totalBytes || (a.modelId < b.modelId ? -1 : 1))
  return { models: found.map(({ modelId }) => modelId), waits: false }
}
