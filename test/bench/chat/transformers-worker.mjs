// @huggingface/transformers on the same files: greedy answers, one after the other.
import { basename, dirname } from 'node:path'
import { AutoModelForCausalLM, Tensor, env } from '@huggingface/transformers'
import { serveWorker } from '../lib/worker.mjs'
import { promptOf } from './model.mjs'
import { stopwatch } from './times.mjs'

env.allowRemoteModels = false

/** options: { folder, threads, dtype } */
await serveWorker(async ({ folder, threads, dtype = 'fp32' }) => {
  env.localModelPath = `${dirname(folder)}/`
  const model = await AutoModelForCausalLM.from_pretrained(basename(folder), {
    dtype, device: 'cpu', local_files_only: true,
    session_options: { intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 3 }
  })

  async function write ({ length, seed, tokens }) {
    const ids = BigInt64Array.from(promptOf(length, seed), BigInt)
    const tensor = (data) => new Tensor('int64', data, [1, length])
    const watch = stopwatch()
    let prompt = true
    const streamer = {
      put () {
        if (!prompt) watch.token()
        prompt = false
      },
      end () {}
    }
    await model.generate({
      input_ids: tensor(ids), attention_mask: tensor(new BigInt64Array(length).fill(1n)),
      max_new_tokens: tokens, min_new_tokens: tokens, do_sample: false, streamer
    })
    return watch.done()
  }

  return {
    handle: async ({ streams }) => {
      const done = []
      for (const each of streams) done.push(await write(each))
      return { streams: done }
    }
  }
})
