import { Tensor, type InferenceSession } from 'onnxruntime-node'
import { EngineError, type EngineEnv, type ModelSpec } from '../../../kernel/api/engine.js'
import { openSession } from '../../runners/onnx/engine.js'

export type Feeds = Record<string, Tensor>

export class Sessions {
  private readonly spec: Pick<ModelSpec, 'backend' | 'threads'>
  private readonly env: EngineEnv
  private readonly opened: InferenceSession[] = []

  constructor (spec: Pick<ModelSpec, 'backend' | 'threads'>, env: EngineEnv) {
    this.spec = spec
    this.env = env
  }

  /**
   * Opens a graph given as bytes or as a path; `label` names it in errors. @throws EngineError no_backend,
   * model_invalid
   */
  async open (model: Uint8Array | string, label: string): Promise<InferenceSession> {
    const session = await openSession(model, this.spec, { engine: 'onnx-tts', label })
    this.opened.push(session)
    return session
  }

  async run (session: InferenceSession, feeds: Feeds, label: string, units: number): Promise<Feeds> {
    return await this.env.work(label, units, async () => await session.run(feeds))
  }

  async close (): Promise<void> { for (const session of this.opened.splice(0)) await session.release() }
}

export const int64 = (values: number[], dims: number[]): Tensor =>
  new Tensor('int64', BigInt64Array.from(values, BigInt), dims)

export const float32 = (values: Float32Array | number[], dims: number[]): Tensor =>
  new Tensor('float32', values instanceof Float32Array ? values : Float32Array.from(values), dims)

/** The samples of a float32 tensor of any rank. @throws EngineError model_invalid for another element type */
export function floats (tensor: Tensor | undefined, name: string): Float32Array {
  if (tensor?.data instanceof Float32Array) return tensor.data
  throw new EngineError(
    'model_invalid', `output "${name}" of the graph is not float32 but ${tensor?.type ?? 'missing'}`
  )
}

/** Columns [from, to) of a row-major [rows, width] tensor. */
export function columns (data: Float32Array, rows: number, from: number, to: number): Float32Array {
  const width = data.length / rows
  const out = new Float32Array(rows * (to - from))
  for (let r = 0; r < rows; r++) out.set(data.subarray(r * width + from, r * width + to), r * (to - from))
  return out
}
