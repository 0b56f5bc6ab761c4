/**
 * Engine `onnx-lm`: language models on onnxruntime. Runs inside a runner process; model.ts runs the graph,
 * scheduler.ts decides what runs next, ../text turns tokens into text.
 */
import type { EngineEnv, EngineModule, EngineSession, ModelSpec } from '../../../kernel/api/engine.js'
import { DecoderSession } from './decoder-session.js'
import { EncoderSession } from './encoder.js'
import { loadModel } from './load.js'
import { OpenAiSession } from './openai.js'

/** Sessions without the protocol of language models around them, whose tokens have ids. */
export const inner = {
  async load (spec: ModelSpec, env: EngineEnv): Promise<EncoderSession | DecoderSession> {
    const model = await loadModel(spec, env)
    return 'pooling' in model ? new EncoderSession(model, spec) : new DecoderSession(model, spec)
  }
}

/** The engine. `load` reads the files that the card lists below `spec.directory`. */
const engine: EngineModule = {
  async load (spec: ModelSpec, env: EngineEnv): Promise<EngineSession> {
    const session = await inner.load(spec, env)
    return session instanceof DecoderSession ? new OpenAiSession(session, session.text) : session
  }
}

export default engine
