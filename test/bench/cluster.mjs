// node test/bench/cluster.mjs [--short] [names]: the cluster benchmarks. Needs `npm run build`, as `npm
// run bench:cluster` does.
import { main } from './lib/main.mjs'

const status = await main({
  script: 'test/bench/cluster.mjs',
  names: ['failover', 'join', 'spread', 'traffic', 'sessions', 'simulator', 'idle', 'load', 'steward'],
  hint: 'a quick pass',
  load: (name) => import(`./cluster/${name}.mjs`)
})
// Open handles of the in-process clusters must not keep the process alive.
process.exit(status)
