// node test/bench/chat.mjs [--short] [names]: the figures of language models, on a model of SmolLM-135M's
// shape with random weights, which is written at the first call (140 MB). Needs `npm run build`, and
// SVC_LLAMA_SERVER_BIN to name a llama-server.
import { main } from './lib/main.mjs'

process.exitCode = await main({
  script: 'test/bench/chat.mjs',
  names: ['llama', 'engines', 'relay', 'ranks'],
  hint: 'fewer rounds',
  load: async (name) => await import(`./chat/${name}.mjs`)
})
