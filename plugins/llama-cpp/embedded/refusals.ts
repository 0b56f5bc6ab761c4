import { EngineError } from '../../../kernel/api/engine.js'
import { invalid } from '../../runners/language/refusals.js'

/** The error for a feature that only llama-server supports. */
export const needsServer = (path: string, why: string): EngineError => invalid(
  `${path}: the llama.cpp in svc ${why}; llama-server does (install it with \`svc engine add llama.cpp\`)`,
  path)

export const cannotLoad = (modelId: string, why: string): EngineError =>
  new EngineError('model_invalid', `llama.cpp cannot load ${modelId}: ${why}`)
