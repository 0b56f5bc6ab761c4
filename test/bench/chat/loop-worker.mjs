// The floor: the engine's model in a bare loop of greedy steps, without scheduler, sampler and text.
import { serveWorker } from '../lib/worker.mjs'
import { source } from '../lib/paths.mjs'
import { promptOf } from './model.mjs'
import { stopwatch } from './times.mjs'

const { loadModel } = await source('plugins/chat/engine/load.ts')
const env = { progress () {}, work: async (_label, _units, call) => await call(), log () {} }

function greatest (logits) {
  let best = 0
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i
  return best
}

/** options: { folder, card, threads } */
await serveWorker(async ({ folder, card, threads }) => {
  const { decoder } = await loadModel({ card, directory: folder, backend: 'cpu', threads, options: {} }, env)
  return {
    handle: async ({ length, seed, tokens }) => {
      const watch = stopwatch()
      let made = await decoder.forward(decoder.empty(), [promptOf(length, seed)], true)
      watch.token()
      while (watch.count < tokens) {
        made = await decoder.forward(made.batch, [[greatest(made.logits[0])]], true)
        watch.token()
      }
      return { streams: [watch.done()] }
    }
  }
})
