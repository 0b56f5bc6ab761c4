import { SvcError } from '../../kernel/index.js'
import type { Bundle, Logger } from '../../kernel/index.js'
import { reasonOf } from './process/errors.js'

export interface AutostartParts {
  bundle: Bundle
  log: Logger
  /** The configured list; undefined for every bundled model. */
  configured: readonly string[] | undefined
  masterKnown (): boolean
  ensure (modelId: string): Promise<unknown>
}

/** The models that start with the node. */
export function autostartModels ({
  bundle,
  configured
}: Pick<AutostartParts, 'bundle' | 'configured'>): string[] {
  return configured === undefined ? bundle.models().map(({ card }) => card.modelId) : [...configured]
}

/**
 * Asks for an instance of each of them on this node. Safe to call again after each change of session, which
 * is what happens while no master is known. A model that cannot start is logged and shows in GET /readyz;
 * the others start all the same. Resolves to false when one is not known: the node that has it may not have
 * been met yet.
 */
export async function autostart (parts: AutostartParts): Promise<boolean> {
  if (!parts.masterKnown()) return true
  let models: string[] = []
  try {
    models = autostartModels(parts)
  } catch (error) {
    parts.log.error(
      { error: reasonOf(error) },
      'no model is started: the card of a bundled model cannot be read'
    )
  }
  let allKnown = true
  await Promise.all(
    models.map(async (modelId) => {
      try {
        await parts.ensure(modelId)
      } catch (error) {
        if (error instanceof SvcError && error.reason === 'model_unknown') allKnown = false
        const remedy = error instanceof SvcError ? error.details['remedy'] : undefined
        parts.log.error(
          { modelId, error: reasonOf(error), remedy },
          'a model set to start with the node cannot start'
        )
      }
    })
  )
  return allKnown
}
