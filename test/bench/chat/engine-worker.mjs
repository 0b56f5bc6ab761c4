// Our engine alone: the module that a runner loads, without runner, node and HTTP.
import { setTimeout as sleep } from 'node:timers/promises'
import { serveWorker } from '../lib/worker.mjs'
import { source } from '../lib/paths.mjs'
import { promptOf } from './model.mjs'
import { stopwatch } from './times.mjs'

const { default: engine } = await source('plugins/chat/engine/index.ts')
const env = { progress () {}, work: async (_label, _units, call) => await call(), log () {} }
const PAUSE_MS = 400
const never = new AbortController().signal

/** options: { folder, card, threads, options } */
await serveWorker(async ({ folder, card, threads, options = {} }) => {
  const session = await engine.load({ card, directory: folder, backend: 'cpu', threads, options }, env)
  await session.warmup()

  /** One answer: when each of its tokens came, counted from the request, ms on this process's clock. */
  async function write (each) { return (await writeAll({ ...each, n: 1 }))[0] }

  /** The same for `n` answers to one prompt, which is fed once. */
  async function writeAll ({ length, seed, tokens, n = 1, afterMs = 0 }) {
    await sleep(afterMs)
    const watches = Array.from({ length: n }, stopwatch)
    const payload = { prompt: promptOf(length, seed), max_tokens: tokens, n, temperature: 0 }
    for await (const { payload: { choices } } of session.run({ kind: 'completion', payload }, never)) {
      for (const { index, finish_reason: end } of choices) if (end == null) watches[index].token()
    }
    return watches.map((watch) => watch.done())
  }

  /** Short prompts, one after the other, until a long one is done; `count` of them where there is none. */
  async function probes ({ long, count, length, seed }) {
    let done = false
    const busy = long === undefined ? undefined : write({ ...long, tokens: 1 }).then(() => { done = true })
    const firsts = []
    for (let i = 0; !done && (long !== undefined || i < count); i++) {
      const { startedAt, times } = await write({ length, seed: seed + i, tokens: 1, afterMs: PAUSE_MS })
      // The long prompt may have ended meanwhile: then this one had the model for itself.
      if (!done) firsts.push(times[0] - startedAt)
    }
    await busy
    return { firsts }
  }

  return {
    ready: session.info(),
    handle: async ({ streams, probe }) => probe === undefined
      ? { streams: (await Promise.all(streams.map((each) => writeAll(each)))).flat() }
      : await probes(probe)
  }
})
