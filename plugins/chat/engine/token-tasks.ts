/** Tasks that every language model serves without running its graph. */
import { EngineError } from '../../../kernel/engine.js'
import type { LoadedText } from '../text/types.js'
import { chatPrompt, plainPrompt } from './request.js'

/**
 * Task `tokenize`: `{ messages }`, or `{ prompt, add_special_tokens }`, to
 * `{ kind: 'tokens', tokens, count, context_length }`.
 */
export function tokenized (
  payload: Record<string, unknown>, text: LoadedText, contextLength: number
): Record<string, unknown> {
  const { messages, prompt, add_special_tokens: special } = payload
  const bare = typeof prompt === 'string' && special === false
  const tokens = messages !== undefined
    ? chatPrompt(payload, text)
    : bare ? text.encode(prompt, false) : plainPrompt(payload, text)
  return { kind: 'tokens', tokens, count: tokens.length, context_length: contextLength }
}

/** Task `detokenize`: `{ tokens }` to `{ kind: 'text', text }`, special tokens included. */
export function detokenized ({ tokens }: Record<string, unknown>, text: LoadedText): Record<string, unknown> {
  const ids = plainPrompt({ prompt: Array.isArray(tokens) ? tokens : null }, text)
  return { kind: 'text', text: text.decode(ids, false) }
}

/** The refusal of a task that a model does not serve. */
export const unknownTask = (kind: string, served: string): EngineError =>
  new EngineError('invalid_request', `this model serves ${served}, not ${kind}`)
