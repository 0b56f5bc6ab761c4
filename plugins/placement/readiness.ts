import type { ReadyCheck } from '../../kernel/index.js'
import { instancesOf, progressOf } from './progress.js'
import type { WaitingInstance } from './standing.js'
import type { ReadState, StateView } from './state-view.js'

export interface ReadinessParts {
  readState: ReadState
  /** Models the cluster places by itself. Throws when a card cannot be read. */
  autoplace (): readonly string[]
  isStopped (modelId: string): boolean
  waiting (): WaitingInstance[]
}

/**
 * The check behind GET /readyz without a model: of everything that the cluster places by itself an instance
 * is ready, on whichever node.
 */
export function readiness (parts: ReadinessParts): (model?: string) => Promise<ReadyCheck> {
  return async (model) => {
    if (model !== undefined) return { ok: null, detail: '' }
    const models = parts.autoplace().filter((modelId) => !parts.isStopped(modelId))
    if (models.length === 0) return { ok: true, detail: 'no model is placed by itself' }
    const state = await parts.readState()
    const missing = models.flatMap((modelId) => {
      const problem = problemOf(parts, state, modelId)
      return problem === null ? [] : [`${modelId}: ${problem}`]
    })
    return missing.length === 0
      ? { ok: true, detail: `ready: ${models.join(', ')}` }
      : { ok: false, detail: missing.join('; ') }
  }
}

/** Why no instance of the model is ready; null when one is. */
function problemOf ({ waiting }: ReadinessParts, state: StateView, modelId: string): string | null {
  const all = instancesOf(state, modelId).map((id) => progressOf(state, id))
  if (all.some(({ kind }) => kind === 'ready')) return null
  const starting = all.find((one) => one.kind === 'starting')
  if (starting !== undefined) {
    return `its runner is starting (${starting.ranks.map((rank) => rank.state).join(', ')})`
  }
  const failed = all.find((one) => one.kind === 'failed')
  if (failed !== undefined) return `its runner failed: ${failed.message}`
  const entry = waiting().find((one) => one.modelId === modelId)
  return entry === undefined ? 'it is not placed yet' : `${entry.message} (${entry.reason})`
}
