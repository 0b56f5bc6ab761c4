import { EngineError } from '../../../kernel/api/engine.js'
import { invalid } from '../../runners/language/refusals.js'

export { invalid }

/** A refusal of what only llama.cpp's server does. */
export const needsServer = (path: string, why: string): EngineError => invalid(
  `${path}: the llama.cpp in svc ${why}; its server does: \`svc engine add llama.cpp\` installs it`, path)

export const cannotLoad = (modelId: string, why: string): EngineError =>
  new EngineError('model_invalid', `llama.cpp cannot load ${modelId}: ${why}`)
