// svc's voice engine alone, in the module that a runner loads: without a runner, a node or HTTP.
import { readFileSync } from 'node:fs'
import { serveWorker } from '../lib/worker.mjs'
import { source } from '../lib/paths.mjs'


async function espeak () {
  const { phonemizeToString } = await import('piper-phonemize').then((m) => m.default ?? m)
  return phonemizeToString
}

await serveWorker(async ({ card, directory, espeak: withEspeak }) => {
  const { openSpeech } = await source('plugins/capabilities-tts/engine/index.ts')
  const { loadFamily } = await source('plugins/capabilities-tts/engine/load.ts')
  const spec = {
    card: typeof card === 'string' ? JSON.parse(readFileSync(card, 'utf8')) : card,
    directory,
    backend: 'cpu',
    threads: 1,
    options: {}
  }
  const env = { progress () {}, work: async (_label, _units, call) => await call(), log () {} }
  const session = openSpeech(await loadFamily(spec, env, withEspeak ? espeak : undefined), spec)
  await session.warmup()
  const never = new AbortController().signal
  return {
    handle: async ({ payload }) => {
      const startedAt = performance.now()
      let firstMs = null
      let bytes = 0
      let seconds = 0
      for await (const { media, timing } of session.run({ kind: 'tts', payload }, never)) {
        firstMs ??= performance.now() - startedAt
        bytes += media?.length ?? 0
        seconds = timing.timestampSeconds + timing.durationSeconds
      }
      return { firstMs, totalMs: performance.now() - startedAt, bytes, seconds }
    }
  }
})
