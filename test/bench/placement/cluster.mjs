/** Clusters of real processes with placed models, with the product's own timers. */
import { join } from 'node:path'
import { root, source } from '../lib/paths.mjs'

// Makes the cluster kit use the product's own timers instead of the short ones.
process.env.SVC_TEST_FULL = '1'

export const kit = await source('test/node/instances-kit.ts')
export const { until } = await source('test/node/kit.ts')
export const { ready } = await source('test/node/engine.ts')
const { stream, readStream } = await source('test/node/http.ts')

export const VOICE = 'svc/voice-en'
export const ENGINE = 'test/ok'

/** Runs `work` with a cluster of three nodes, and always stops it. */
export async function withCluster (work, options = {}) {
  const undo = []
  const t = { teardown: (fn) => { undo.unshift(fn) } }
  try {
    return await work(await kit.instancesCluster(t, {
      plugins: {
        faults: { module: join(root, 'test/node/fixtures/faults.mjs') }, runners: { max_concurrent: 256 }
      },
      ...options
    }))
  } finally {
    for (const fn of undo) await fn()
  }
}

const LONG_TEXT = 'All work and no play makes a dull day, and a dull day makes no play. '.repeat(600)

/** Opens a stream of minutes of speech; resolves when audio arrives. `end` resolves on its terminal event. */
export async function openVoice (node) {
  const opened = await stream(node, 'tts@1.0.0', { model: VOICE, text: LONG_TEXT })
  await opened.frames.next()
  return {
    end: readStream(opened).then(({ terminals, last }) => ({
      terminals, at: performance.now(), reason: last?.header.error?.reason ?? last?.header.kind ?? 'cut'
    }))
  }
}

/** Waits for a stream from openVoice to end; gives `hangs` as the reason if it has not after `seconds`. */
export async function ended (opened, seconds = 15) {
  let timer
  const late = new Promise((resolve) => {
    timer = setTimeout(() => { resolve({ terminals: 0, reason: 'hangs', at: performance.now() }) },
      seconds * 1000)
  })
  const first = await Promise.race([opened.end, late])
  clearTimeout(timer)
  return first
}

/** Retries until the node answers a short speech request. */
export async function speaks (node, seconds = 60) {
  await until('the voice to speak', async () => {
    const answer = await kit.askWithin(node, '/v1/audio/speech', { body: { model: VOICE, input: 'Yes.' } })
    return answer.status === 200 && answer.bytes.length > 500
  }, { seconds, everyMs: 10 })
}
