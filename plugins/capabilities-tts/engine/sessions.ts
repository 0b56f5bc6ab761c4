/** Opening onnxruntime sessions and running them as announced work. */
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { EngineError, type EngineEnv, type ModelSpec } from '../../../kernel/api/engine.js'

export type Feeds = Record<string, Tensor>

const PROVIDERS: Record<string, string[]> = { cpu: ['cpu'], cuda: ['cuda', 'cpu'], webgpu: ['webgpu', 'cpu'] }

/** Opens sessions with the options of one model spec. */
export class Sessions {
  private readonly options: InferenceSession.SessionOptions
  private readonly env: EngineEnv
  private readonly opened: InferenceSession[] = []

  /** @throws EngineError no_backend for a backend this engine does not know. */
  constructor (spec: Pick<ModelSpec, 'backend' | 'threads'>, env: EngineEnv) {
    const executionProviders = PROVIDERS[spec.backend]
    if (executionProviders === undefined) {
      throw new EngineError('no_backend', `engine onnx-tts has no backend "${spec.backend}": ` +
        `it has ${Object.keys(PROVIDERS).join(', ')}`)
    }
    this.env = env
    this.options = {
      executionProviders,
      intraOpNumThreads: spec.threads,
      interOpNumThreads: 1,
      graphOptimizationLevel: 'all',
      // Every sentence has its own shape: planning memory per shape costs more than it saves.
      enableMemPattern: false,
      logSeverityLevel: 3,
      // Idle threads must sleep: the node and other runners share the cores.
      extra: { session: { intra_op: { allow_spinning: '0' } } }
    }
  }

  /**
   * A session from bytes in memory or a file's path.
   * @throws EngineError model_invalid where onnxruntime refuses the graph.
   */
  async open (model: Uint8Array | string, label: string): Promise<InferenceSession> {
    try {
      const session = typeof model === 'string'
        ? await InferenceSession.create(model, this.options)
        : await InferenceSession.create(model, this.options)
      this.opened.push(session)
      return session
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      throw new EngineError('model_invalid', `onnxruntime cannot load ${label}: ${why}`)
    }
  }

  /** One native run, announced with its size. */
  async run (session: InferenceSession, feeds: Feeds, label: string, units: number): Promise<Feeds> {
    return await this.env.work(label, units, async () => await session.run(feeds) as Feeds)
  }

  async close (): Promise<void> {
    for (const session of this.opened.splice(0)) await session.release()
  }
}

export const int64 = (values: number[], dims: number[]): Tensor =>
  new Tensor('int64', BigInt64Array.from(values, BigInt), dims)

export const float32 = (values: Float32Array | number[], dims: number[]): Tensor =>
  new Tensor('float32', values instanceof Float32Array ? values : Float32Array.from(values), dims)

/** The float samples of a tensor of any rank. @throws EngineError model_invalid for another element type. */
export function floats (tensor: Tensor | undefined, name: string): Float32Array {
  if (tensor?.data instanceof Float32Array) return tensor.data
  throw new EngineError(
    'model_invalid', `output "${name}" of the graph is not float32 but ${tensor?.type ?? 'missing'}`
  )
}
