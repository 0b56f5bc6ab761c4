// The lower bound: the whole graph in a bare onnxruntime session, and the bare lamejs encoder on its samples.
import { readFileSync } from 'node:fs'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { Mp3Encoder } from 'lamejs'
import { serveWorker } from '../lib/worker.mjs'

await serveWorker(async ({ model, ids, scales, sid, sampleRate, kbps }) => {
  const session = await InferenceSession.create(readFileSync(model), {
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3
  })
  const feeds = {
    input: new Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]),
    input_lengths: new Tensor('int64', BigInt64Array.of(BigInt(ids.length)), [1]),
    scales: new Tensor('float32', Float32Array.from(scales), [3]),
    ...(sid === undefined ? {} : { sid: new Tensor('int64', BigInt64Array.of(BigInt(sid)), [1]) })
  }
  return {
    handle: async () => {
      const startedAt = performance.now()
      const { output } = await session.run(feeds)
      const sessionMs = performance.now() - startedAt
      const pcm = Int16Array.from(output.data, (v) => Math.max(-1, Math.min(1, v)) * 32767)
      const encodeAt = performance.now()
      const encoder = new Mp3Encoder(1, sampleRate, kbps)
      const bytes = encoder.encodeBuffer(pcm).length + encoder.flush().length
      const encodeMs = performance.now() - encodeAt
      return {
        sessionMs,
        encodeMs,
        totalMs: sessionMs + encodeMs,
        bytes,
        seconds: pcm.length / sampleRate
      }
    }
  }
})
