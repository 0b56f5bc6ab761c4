// node-llama-cpp on a GGUF file of the same shape.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { serveWorker } from '../lib/worker.mjs'
import { promptOf } from './model.mjs'
import { stopwatch } from './times.mjs'

/** options: { file, threads, context } */
await serveWorker(async ({ file, threads, context }) => {
  const at = createRequire(import.meta.url).resolve('node-llama-cpp')
  const { getLlama } = await import(pathToFileURL(at).href)
  const llama = await getLlama({ gpu: false, build: 'never', progressLogs: false, logLevel: 'error' })
  const model = await llama.loadModel({ modelPath: file })
  const made = await model.createContext({ contextSize: context, threads, sequences: 1, batchSize: 512 })
  const sequence = made.getSequence()
  return {
    handle: async ({ streams: [{ length, seed, tokens }] }) => {
      await sequence.clearHistory()
      const watch = stopwatch()
      for await (const _ of sequence.evaluate(promptOf(length, seed), { temperature: 0 })) {
        watch.token()
        if (watch.count === tokens) break
      }
      return { streams: [watch.done()] }
    }
  }
})
