// node test/bench/observe.mjs [--short] [names]: what it costs to keep the events, to trace and to show
// metrics. Needs `npm run build`, as `npm run bench:observe` does. The table `log` has its stalled and its
// full disk as root on Linux only: it mounts a disk of its own.
import { main } from './lib/main.mjs'

const status = await main({
  script: 'test/bench/observe.mjs',
  names: ['durable', 'log', 'rotation', 'tracing', 'metrics'],
  hint: 'fewer rounds',
  load: (name) => import(`./observe/${name}.mjs`)
})
process.exit(status)
