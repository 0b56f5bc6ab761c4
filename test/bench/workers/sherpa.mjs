// sherpa-onnx-node with a Piper voice: time to the first and last samples for a text.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { serveWorker } from '../lib/worker.mjs'

await serveWorker(async ({ folder, data }) => {
  const { OfflineTts, GenerationConfig } = createRequire(import.meta.url)('sherpa-onnx-node')
  const tts = await OfflineTts.createAsync({
    model: {
      vits: {
        model: join(folder, 'voice.onnx'),
        tokens: join(folder, 'tokens.txt'),
        dataDir: data,
        noiseScale: 0.667,
        noiseScaleW: 0,
        lengthScale: 1
      },
      numThreads: 1,
      provider: 'cpu',
      debug: false
    },
    maxNumSentences: 1
  })
  const generationConfig = new GenerationConfig({ sid: 0, speed: 1, silenceScale: 1 })
  return {
    ready: { sampleRate: tts.sampleRate },
    handle: async ({ text }) => {
      const startedAt = performance.now()
      let firstMs = null
      let lastMs = 0
      let samples = 0
      await tts.generateAsync({
        text,
        generationConfig,
        onProgress: (piece) => {
          lastMs = performance.now() - startedAt
          firstMs ??= lastMs
          samples += piece.samples.length
          return 1
        }
      })
      return { firstMs, totalMs: lastMs, seconds: samples / tts.sampleRate }
    }
  }
})
