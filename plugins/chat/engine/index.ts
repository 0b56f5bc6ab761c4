/**
 * Engine `onnx-lm`: language models on onnxruntime. Runs inside a runner process; model.ts runs the graph,
 * scheduler.ts decides what runs next, ../text turns tokens into text.
 */
import type { EngineEnv, EngineModule, EngineSession, ModelSpec } from '../../../kernel/api/engine.js'
import { EmbeddingSession } from './embedding.js'
import { loadModel } from './load.js'
import { WriterSession } from './writing.js'

/** The engine. `load` reads the files that the card lists below `spec.directory`. */
const engine: EngineModule = {
  async load (spec: ModelSpec, env: EngineEnv): Promise<EngineSession> {
    const model = await loadModel(spec, env)
    return 'encoder' in model ? new EmbeddingSession(model, spec) : new WriterSession(model, spec)
  }
}

export default engine
