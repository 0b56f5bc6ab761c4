/** Shared by onnxruntime engines inside a runner: reading, cutting and writing graphs, opening sessions. */
import { InferenceSession } from 'onnxruntime-node'
import { EngineError, type ModelSpec } from '../../../kernel/api/engine.js'

export { closureOf, extractModel, indexGraph } from './graph.js'
export type { GraphIndex } from './graph.js'
export {
  ATTRIBUTE, ELEMENT, attributesOf, decodeModel, encodeMessage, encodeModel, int64Tensor, nodeOf, tensorInfo
} from './messages.js'
export type { OnnxGraph, OnnxModel, OnnxNode } from './messages.js'

const PROVIDERS: Record<string, string[]> = { cpu: ['cpu'], cuda: ['cuda', 'cpu'], webgpu: ['webgpu', 'cpu'] }

/** Microseconds that a thread spins before it sleeps. */
const SPIN_US = '50'

export interface SessionNames { engine: string, label: string }

/**
 * Opens a graph from a path or from memory.
 * @throws EngineError no_backend for a backend that svc does not use with onnxruntime, model_invalid if
 * onnxruntime rejects the graph
 */
export async function openSession (
  model: string | Uint8Array, { backend, threads }: Pick<ModelSpec, 'backend' | 'threads'>,
  { engine, label }: SessionNames
): Promise<InferenceSession> {
  const executionProviders = PROVIDERS[backend]
  if (executionProviders === undefined) {
    throw new EngineError('no_backend', `engine ${engine} does not support backend "${backend}": ` +
      `it supports ${Object.keys(PROVIDERS).join(', ')}`)
  }
  const options: InferenceSession.SessionOptions = {
    executionProviders,
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    graphOptimizationLevel: 'all',
    // Each sentence and step has a different shape, so planning memory per shape costs more than it saves.
    enableMemPattern: false,
    logSeverityLevel: 3,
    // A step has hundreds of short parts, and waking a thread for each takes longer than the part itself.
    // Threads that wait longer must sleep, because the node and other runners share the cores.
    extra: {
      session: { force_spinning_stop: '1', intra_op: { allow_spinning: '1', spin_duration_us: SPIN_US } }
    }
  }
  try {
    return typeof model === 'string'
      ? await InferenceSession.create(model, options)
      : await InferenceSession.create(model, options)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new EngineError('model_invalid', `onnxruntime cannot load ${label}: ${why}`)
  }
}
