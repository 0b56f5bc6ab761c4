import { EngineError } from '../../../kernel/api/engine.js'

export function invalid (message: string, path: string): EngineError {
  return new EngineError('invalid_request', message, { issues: [{ path, message }] })
}

/** The error for a prompt that leaves no space for an answer; clients match its first word. */
export function contextExceeded (modelId: string, prompt: number, context: number): EngineError {
  return new EngineError('context_length_exceeded',
    `context_length_exceeded: this model's maximum context length is ${context} tokens, one of them at ` +
    `least for the answer; the prompt for ${modelId} has ${prompt} tokens`,
    { prompt_tokens: prompt, context_length: context })
}

export const unknownTask = (kind: string, served: string): EngineError =>
  new EngineError('invalid_request', `this model serves ${served}, not ${kind}`)
