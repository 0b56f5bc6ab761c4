// An engine without a model that takes as long per token as a real one. The last message sets the pace:
// `{"tokens": 500, "ms": 4}`. The text of a token is its creation time in ns on the monotonic clock, which
// all processes of a machine share.
import { setImmediate as turn } from 'node:timers/promises'

/** Keeps a core busy for `ms` without blocking the event loop, as a computation on other threads does. */
async function compute (ms) {
  const end = performance.now() + ms
  do await turn()
  while (performance.now() < end)
}

async function * answer ({ tokens, ms }, trace, signal) {
  yield { payload: { choices: [], usage: { prompt_tokens: 1 } } }
  // Records the decoding steps of a traced request, as the engine for language models does.
  const steps = trace?.series('decode', 'decode')
  let at = trace?.now()
  for (let n = 0; n < tokens && !signal.aborted; n++) {
    await compute(ms)
    if (steps !== undefined) {
      const now = trace.now()
      steps.add(at, now)
      at = now
    }
    yield { payload: { choices: [{ index: 0, delta: { content: `${process.hrtime.bigint()};` } }] } }
  }
  yield {
    payload: {
      choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: tokens }
    }
  }
}

export default {
  async load () {
    return {
      async warmup () {},
      run: ({ payload, trace }, signal) => answer(JSON.parse(payload.messages.at(-1).content), trace, signal),
      info: () => ({})
    }
  }
}
