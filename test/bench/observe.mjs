// node test/bench/observe.mjs [--short] [names]: the cost of storing events, tracing and metrics. Needs `npm
// run build`, as `npm run bench:observe` does. The `log` table covers a stalled and a full disk only as root
// on Linux, because it must mount a disk.
import { main } from './lib/main.mjs'

const status = await main({
  script: 'test/bench/observe.mjs',
  names: ['durable', 'log', 'rotation', 'tracing', 'metrics'],
  hint: 'fewer rounds',
  load: (name) => import(`./observe/${name}.mjs`)
})
process.exit(status)
