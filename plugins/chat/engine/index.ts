/**
 * Engine `onnx-lm`: language models on onnxruntime. Runs inside a runner process; model.ts runs the graph,
 * scheduler.ts decides what runs next, ../text turns tokens into text.
 */
import type { EngineEnv, EngineModule, EngineSession, ModelSpec } from '../../../kernel/api/engine.js'
import { DecoderSession } from './decoder-session.js'
import { EncoderSession } from './encoder.js'
import { loadModel } from './load.js'

/** The engine. `load` reads the files that the card lists below `spec.directory`. */
const engine: EngineModule = {
  async load (spec: ModelSpec, env: EngineEnv): Promise<EngineSession> {
    const model = await loadModel(spec, env)
    return 'pooling' in model ? new EncoderSession(model, spec) : new DecoderSession(model, spec)
  }
}

export default engine
