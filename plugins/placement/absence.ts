import type { Section } from '../../kernel/index.js'
import type { Absence } from '../runners/service.js'
import type { StoppedEntry, WaitingEntry } from './sections.js'

/** Why a model is not placed: it waits for a node, or somebody stopped it. Null where neither is known. */
export function absenceOf (
  modelId: string, { waiting, stopped }: { waiting: Section<WaitingEntry>, stopped: Section<StoppedEntry> }
): Absence | null {
  for (const { value } of waiting.entries()) {
    if (value.modelId !== modelId) continue
    return {
      problem: `it waits for a node: ${value.message.replace(/\.$/, '')}`,
      remedy: `It is placed as soon as it fits; \`svc place ${modelId} --dry-run --explain\` shows the sums.`
    }
  }
  const entry = stopped.get(modelId)
  return entry === undefined
    ? null
    : { problem: `it was stopped at ${entry.since}`, remedy: `Place it: \`svc place ${modelId}\`.` }
}
