import { EngineError } from '../../../kernel/api/engine.js'

/** A refusal of what the client sent; `path` names the field. */
export function invalid (message: string, path: string): EngineError {
  return new EngineError('invalid_request', message, { issues: [{ path, message }] })
}

/** A refusal of the model's own files. */
export function badModel (message: string): EngineError {
  return new EngineError('model_invalid', message)
}
