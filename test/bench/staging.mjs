// node test/bench/staging.mjs [--short] [names]: benchmarks of copying models between nodes. Needs `npm run
// build`, as `npm run bench:staging` does.
import { main } from './lib/main.mjs'

process.exitCode = await main({
  script: 'test/bench/staging.mjs',
  names: ['copy', 'cold', 'cut', 'loop', 'small', 'many'],
  hint: 'smaller models and fewer rounds',
  load: (name) => import(`./staging/${name}.mjs`)
})
