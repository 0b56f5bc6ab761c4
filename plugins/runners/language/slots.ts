/** Number of engine slots that a language-model task occupies: one per answer. Pure. */
import type { EngineTask } from '../../../kernel/api/engine.js'

export function slotsTaken ({ kind, payload: { n } }: EngineTask): number {
  if (kind === 'tokenize' || kind === 'detokenize') return 0
  return Number.isSafeInteger(n) && n as number > 0 ? n as number : 1
}

/** True for a task whose reader accepts answer chunks, which may carry the task's position in the queue. */
export const isAnswer = ({ kind }: EngineTask): boolean => /^(chat|completions?)$/.test(kind)
