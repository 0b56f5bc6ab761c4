// node test/bench/run.mjs [--short] [names]: all benchmarks or the named ones, in sequence.
import { main } from './lib/main.mjs'

process.exitCode = await main({
  script: 'test/bench/run.mjs',
  names: ['voice', 'piper', 'http', 'loop', 'startup', 'memory', 'hostile'],
  hint: 'fewer rounds',
  load: (name) => import(`./${name}.mjs`)
})
