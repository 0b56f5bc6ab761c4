/** Slots that tasks for language models occupy in an engine: one per answer. Pure. */
import type { EngineTask } from '../../../kernel/api/engine.js'

export function slotsTaken ({ kind, payload: { n } }: EngineTask): number {
  if (kind === 'tokenize' || kind === 'detokenize') return 0
  return Number.isSafeInteger(n) && n as number > 0 ? n as number : 1
}

/** True for a task whose reader accepts answer chunks, and with them its position in the queue. */
export const isAnswer = ({ kind }: EngineTask): boolean => /^(chat|completions?)$/.test(kind)
