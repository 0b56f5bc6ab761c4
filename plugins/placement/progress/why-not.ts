import type { ReadyCheck, Section } from '../../../kernel/index.js'
import type { Absence } from '../../runners/service.js'
import type { Facts, FactsReader } from '../facts.js'
import type { StoppedEntry, WaitingEntry } from '../waitlist.js'
import { rankText } from './follow.js'
import { instancesOf, progressOf } from './progress.js'

export interface ReadinessParts {
  facts: Pick<FactsReader, 'now'>
  /** Models the cluster places by itself. Throws when a card cannot be read. */
  autoplace (): readonly string[]
  isStopped (modelId: string): boolean
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
    const facts = parts.facts.now()
    const missing = models.flatMap((modelId) => {
      const problem = problemOf(facts, modelId)
      return problem === null ? [] : [`${modelId}: ${problem}`]
    })
    return missing.length === 0
      ? { ok: true, detail: `ready: ${models.join(', ')}` }
      : { ok: false, detail: missing.join('; ') }
  }
}

/** Why no instance of the model is ready; null when one is. */
function problemOf (facts: Facts, modelId: string): string | null {
  const all = instancesOf(facts, modelId).map((id) => progressOf(facts, id))
  if (all.some(({ kind }) => kind === 'ready')) return null
  const starting = all.find((one) => one.kind === 'starting')
  if (starting !== undefined) {
    return `its runner is starting (${starting.ranks.map(rankText).join(', ')})`
  }
  const failed = all.find((one) => one.kind === 'failed')
  if (failed !== undefined) return `its runner failed: ${failed.message}`
  const entry = Object.values(facts.waitingInstances).find((one) => one.modelId === modelId)
  return entry === undefined ? 'it is not placed yet' : `${entry.message} (${entry.reason})`
}

/**
 * Says why a model is not placed: it waits for a node, or somebody stopped it. Null where neither is known.
 * What waits is read once after each change: a list of models asks for each of them.
 */
export function createAbsence (
  { waiting, stopped }: { waiting: Section<WaitingEntry>, stopped: Section<StoppedEntry> }
): (modelId: string) => Absence | null {
  let byModel: Map<string, WaitingEntry> | null = null
  waiting.observe(() => { byModel = null })
  const read = (): Map<string, WaitingEntry> => {
    const first = new Map<string, WaitingEntry>()
    for (const { value } of waiting.entries()) if (!first.has(value.modelId)) first.set(value.modelId, value)
    return first
  }
  return (modelId) => {
    const value = (byModel ??= read()).get(modelId)
    if (value !== undefined) {
      return {
        problem: `it waits for a node: ${value.message.replace(/\.$/, '')}`,
        remedy: 'It is placed as soon as it fits; ' +
          `\`svc place ${modelId} --dry-run --explain\` shows the sums.`,
        waits: true
      }
    }
    const entry = stopped.get(modelId)
    return entry === undefined
      ? null
      : {
          problem: `it was stopped at ${entry.since}`,
          remedy: `Place it: \`svc place ${modelId}\`.`,
          waits: false
        }
  }
}
