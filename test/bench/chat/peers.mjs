/** Starting what is measured: our engine, its floor, and peers, each in a process of its own. */
import { createRequire } from 'node:module'
import { startWorker } from '../lib/worker.mjs'
import { benchGguf } from './gguf.mjs'
import { benchCard, benchModel, shapeOf } from './model.mjs'

/** All of them get as many. */
export const THREADS = 1
const worker = (name, options) => startWorker(`../chat/${name}-worker`, { threads: THREADS, ...options })
const files = (layout) => ({ ...benchModel(layout), card: benchCard(layout) })

export const startEngine = (options, layout, threads = THREADS) =>
  worker('engine', { ...files(layout), options, threads })
export const startLoop = (layout) => worker('loop', files(layout))

/** Undefined where it is not installed; a note says so. */
export async function startTransformers (notes, layout, options = {}) {
  return await optional('@huggingface/transformers', notes, 'npm --prefix test/bench install',
    () => worker('transformers', { ...files(layout), ...options }))
}

/** llama.cpp's server on Q4_0 of the same shape. Undefined where no binary is named. */
export async function startServer (notes, layout, options) {
  const binary = process.env.SVC_LLAMA_SERVER_BIN
  if (binary === undefined) {
    notes.push('**llama.cpp was skipped**: SVC_LLAMA_SERVER_BIN names no llama-server')
    return undefined
  }
  const file = benchGguf(benchModel(layout).folder, 'q4_0', shapeOf(layout))
  return await worker('server', { binary, file, ...options })
}

/** llama.cpp, for orientation: float32 weights of the same shape. Undefined where it is not installed. */
export async function startLlama (notes, context) {
  return await optional('node-llama-cpp', notes,
    'npm --prefix test/bench install --no-save --ignore-scripts node-llama-cpp@3, 725 MB',
    () => worker('llama', { file: benchGguf(benchModel().folder), context }))
}

/** One way of calling onnxruntime (session-worker.mjs); the C API only where koffi is installed. */
export async function startSession (options, notes) {
  const start = () => worker('session', { ...files(options.layout), ...options })
  return options.how === 'native'
    ? await optional('koffi', notes, 'npm --prefix test/bench install', start)
    : await start()
}

async function optional (name, notes, install, start) {
  try {
    createRequire(import.meta.url).resolve(name)
  } catch {
    notes.push(`**${name} was skipped**: it is not installed (${install})`)
    return undefined
  }
  try {
    return await start()
  } catch (error) {
    notes.push(`**${name} was skipped**: ${error.message.split('\n')[0]}`)
    return undefined
  }
}
