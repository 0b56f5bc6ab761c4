/** How tasks for language models take the slots of an engine: one for each answer that is written. Pure. */
import type { EngineTask } from '../../../kernel/api/engine.js'

/** Slots that a task takes: as many as it has answers; turning text into tokens takes none. */
export function slotsTaken ({ kind, payload: { n } }: EngineTask): number {
  if (kind === 'tokenize' || kind === 'detokenize') return 0
  return Number.isSafeInteger(n) && n as number > 0 ? n as number : 1
}

/** True for a task whose reader takes chunks of answers, and with them its place in the queue. */
export const isAnswer = ({ kind }: EngineTask): boolean => /^(chat|completions?)$/.test(kind)
