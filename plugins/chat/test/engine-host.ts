/** An engine that works inside the test, behind the plugin's routes. */
import { join } from 'node:path'
import { mkdir, writeFile } from 'node:fs/promises'
import engine, { inner } from '../engine/index.js'
import { quietEnv, specOf, writeModel } from './engine-kit.js'
import { makeEncoder } from './engine-onnx.js'
import type { EngineEnv, EngineSession, ModelCard } from '../../../kernel/api/engine.js'
import type { Open } from './api-kit.js'
import type { DecoderShape } from './engine-onnx.js'

/** What a session answers, as a runner would hand it on. */
export const engineOpen = (session: EngineSession): Open => (task, signal) => session.run(task, signal)

/** A made-up decoder with random weights, without the protocol around it. */
export async function decoderSession (
  directory: string, { shape = {}, card = {}, files = {}, env = quietEnv() }: {
    shape?: DecoderShape, card?: Partial<ModelCard>, files?: Record<string, unknown>, env?: EngineEnv
  } = {}
): Promise<EngineSession> {
  await writeModel(directory, shape, files)
  return await inner.load(await specOf(directory, card), env)
}

/** A made-up encoder; `pooling` is the content of 1_Pooling/config.json. */
export async function encoderSession (directory: string, pooling?: object): Promise<EngineSession> {
  await writeModel(directory)
  await writeFile(join(directory, 'model.onnx'), makeEncoder())
  await mkdir(join(directory, '1_Pooling'), { recursive: true })
  if (pooling !== undefined) {
    await writeFile(join(directory, '1_Pooling/config.json'), JSON.stringify(pooling))
  }
  return await engine.load(await specOf(directory, { tasks: ['embeddings'] }), quietEnv())
}
