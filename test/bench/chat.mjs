// node test/bench/chat.mjs [--short] [names]: benchmarks of language models, on a model of SmolLM-135M's
// shape with random weights (140 MB, written on the first run). Needs `npm run build` and a llama-server
// named by SVC_LLAMA_SERVER_BIN.
import { main } from './lib/main.mjs'

process.exitCode = await main({
  script: 'test/bench/chat.mjs',
  names: ['llama', 'engines', 'relay', 'ranks'],
  hint: 'fewer rounds',
  load: async (name) => await import(`./chat/${name}.mjs`)
})
