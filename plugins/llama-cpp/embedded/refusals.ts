import { EngineError } from '../../../kernel/api/engine.js'

/** A refusal of what the client sent; `path` names the field. */
export const invalid = (message: string, path: string): EngineError =>
  new EngineError('invalid_request', message, { issues: [{ path, message }] })

/** A refusal of what only llama.cpp's server does. */
export const needsServer = (path: string, why: string): EngineError => invalid(
  `${path}: the llama.cpp in svc ${why}; its server does: \`svc engine add llama.cpp\` installs it`, path)

/** The refusal of a prompt without room for an answer, in words that client libraries look for. */
export const tooLong = (tokens: number, contextLength: number): EngineError => new EngineError(
  'context_length_exceeded', `context_length_exceeded: the maximum context length is ${contextLength} ` +
  `tokens, one of them at least for the answer, but the prompt has ${tokens} tokens`,
  { prompt_tokens: tokens, context_length: contextLength })
