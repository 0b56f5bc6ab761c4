/** Opening onnxruntime sessions, and telling what they take and give. */
import { InferenceSession } from 'onnxruntime-node'
import { EngineError, type ModelSpec } from '../../../kernel/api/engine.js'
import type { Port } from './bind.js'

const PROVIDERS: Record<string, string[]> = { cpu: ['cpu'], cuda: ['cuda', 'cpu'], webgpu: ['webgpu', 'cpu'] }

/**
 * Opens a graph from a file, or from memory; `weightsIn` is the folder of weights that lie beside the file
 * whose bytes they are.
 * @throws EngineError no_backend for a backend this engine does not know, model_invalid where onnxruntime
 * refuses the graph
 */
export async function openSession (
  model: string | Uint8Array, { backend, threads }: Pick<ModelSpec, 'backend' | 'threads'>, weightsIn?: string
): Promise<InferenceSession> {
  const executionProviders = PROVIDERS[backend]
  if (executionProviders === undefined) {
    throw new EngineError('no_backend', `engine onnx-lm has no backend "${backend}": ` +
      `it has ${Object.keys(PROVIDERS).join(', ')}`)
  }
  const options: InferenceSession.SessionOptions = {
    executionProviders,
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    graphOptimizationLevel: 'all',
    // Every step has its own shape: planning memory per shape costs more than it saves.
    enableMemPattern: false,
    logSeverityLevel: 3,
    // Idle threads must sleep: the node and other runners share the cores.
    extra: {
      session: {
        intra_op: { allow_spinning: '0' },
        ...weightsIn === undefined ? {} : { model_external_initializers_file_folder_path: weightsIn }
      }
    }
  }
  try {
    return typeof model === 'string'
      ? await InferenceSession.create(model, options)
      : await InferenceSession.create(model, options)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new EngineError('model_invalid', `onnxruntime cannot load the model: ${why}`)
  }
}

/** Inputs and outputs of a session. */
export function portsOf (session: InferenceSession): { inputs: Port[], outputs: Port[] } {
  const ports = (list: readonly InferenceSession.ValueMetadata[]): Port[] => list.map(value => value.isTensor
    ? { name: value.name, type: value.type, shape: value.shape }
    : { name: value.name, type: 'no tensor', shape: [] })
  return { inputs: ports(session.inputMetadata), outputs: ports(session.outputMetadata) }
}
