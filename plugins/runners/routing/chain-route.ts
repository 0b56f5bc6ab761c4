import type { RouteRequest } from '../../../kernel/index.js'
import type { Judge } from '../../staging/service.js'
import type { ReadChains } from './chain-facts.js'
import type { Absence, Instances } from '../service.js'

/** Answers GET /models/{id}/availability: every link of the chain, and the first that is broken. */
export function availabilityHandler (
  chains: ReadChains
): (request: RouteRequest) => Promise<Record<string, unknown>> {
  return async (request) => {
    const { model_id: modelId } = request.params as { model_id: string }
    const { links, broken } = (await chains())(modelId, null)
    return {
      model_id: modelId,
      available: broken === null,
      broken_link: broken?.link ?? null,
      message: broken?.problem ?? null,
      remedy: broken?.remedy ?? null,
      links
    }
  }
}

/** The chains as the list of models wants them. */
export function judgeBy (chains: ReadChains): Judge {
  return async () => {
    const chain = await chains()
    return (modelId) => {
      const { broken } = chain(modelId, null)
      return { available: broken === null, brokenLink: broken?.link ?? null, remedy: broken?.remedy ?? null }
    }
  }
}

/** Keeps who can say why a model is not placed. */
export function absences (): Pick<Instances, 'onAbsent'> & { absence (modelId: string): Absence | null } {
  const tellers = new Set<(modelId: string) => Absence | null>()
  return {
    onAbsent (tell) {
      tellers.add(tell)
      return () => { tellers.delete(tell) }
    },
    absence (modelId) {
      for (const tell of tellers) {
        const found = tell(modelId)
        if (found !== null) return found
      }
      return null
    }
  }
}
