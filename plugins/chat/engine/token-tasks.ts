/** Tasks that every language model serves without running its graph. */
import { EngineError } from '../../../kernel/api/engine.js'
import type { LoadedText } from '../text/types.js'
import { conversation, givenIds, plainPrompt, type ModelFacts } from './request.js'

/**
 * Task `tokenize`: `{ messages }`, or `{ prompt, add_special_tokens }`, to
 * `{ kind: 'tokens', tokens, count, context_length }`.
 */
export async function tokenized (
  payload: Record<string, unknown>, facts: Pick<ModelFacts, 'text' | 'prompts' | 'contextLength'>,
  signal: AbortSignal
): Promise<Record<string, unknown>> {
  const { contextLength } = facts
  const tokens = payload['messages'] !== undefined
    ? await conversation(payload, facts.prompts, signal)
    : await plainPrompt(payload, facts, signal)
  return { kind: 'tokens', tokens, count: tokens.length, context_length: contextLength }
}

/** Task `detokenize`: `{ tokens }` to `{ kind: 'text', text }`, special tokens included. */
export function detokenized ({ tokens }: Record<string, unknown>, text: LoadedText): Record<string, unknown> {
  const ids = givenIds(tokens, text, 'tokens')
  return { kind: 'text', text: text.decode(ids, false) }
}

/** The refusal of a task that a model does not serve. */
export const unknownTask = (kind: string, served: string): EngineError =>
  new EngineError('invalid_request', `this model serves ${served}, not ${kind}`)
