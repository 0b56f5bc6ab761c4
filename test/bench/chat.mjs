// node test/bench/chat.mjs [--short] [names]: the figures of language models, on a model of SmolLM-135M's
// shape with random weights, which is written at the first call (540 MB). Needs `npm run build` and
// `npm --prefix test/bench install`, as `npm run bench:chat` does.
import { main } from './lib/main.mjs'

process.exitCode = await main({
  script: 'test/bench/chat.mjs',
  names: ['decode', 'streams', 'overhead', 'prefill', 'session', 'llama'],
  hint: 'fewer rounds',
  load: (name) => import(`./chat/${name}.mjs`)
})
