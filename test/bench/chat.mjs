// node test/bench/chat.mjs [--short] [names]: the figures of language models, on a model of SmolLM-135M's
// shape with random weights, which is written at the first call (540 MB). Needs `npm run build` and
// `npm --prefix test/bench install`, as `npm run bench:chat` does.
import { main } from './lib/main.mjs'

process.exitCode = await main({
  script: 'test/bench/chat.mjs',
  names: ['decode', 'streams', 'overhead', 'relay', 'prefill', 'session', 'llama', 'ranks', 'q4', 'q4-large'],
  hint: 'fewer rounds',
  load: async (name) => name === 'q4-large'
    ? (await import('./chat/q4.mjs')).large
    : await import(`./chat/${name}.mjs`)
})
