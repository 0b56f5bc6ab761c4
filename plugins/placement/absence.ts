import type { Section } from '../../kernel/index.js'
import type { Absence } from '../runners/service.js'
import type { StoppedEntry, WaitingEntry } from './sections.js'

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
