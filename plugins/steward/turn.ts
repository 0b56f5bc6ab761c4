import type { Caller } from '../../kernel/index.js'
import { read } from './reader/index.js'
import { TurnTools } from './toolbox.js'
import type { TurnParts } from './ask.js'
import type { Question, TurnEvent } from './types.js'

/** Answers a question and reports its progress; the last event is the answer. */
export async function * turn (
  parts: TurnParts, question: Question, { caller, signal }: { caller: Caller, signal: AbortSignal }
): AsyncGenerator<TurnEvent> {
  const tools = new TurnTools(parts, caller, signal)
  const model = parts.model.model()
  const answer = read(tools, question)
  if (model === null) {
    yield * answer
    return
  }
  const { speak } = await import('./voice/index.js')
  yield * speak({ ...parts, tools, signal }, question, { model, reader: answer })
}
