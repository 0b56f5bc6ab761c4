// node test/bench/devices.mjs [--short] [names]: benchmarks of devices, the relay and plugin switching.
// Needs `npm run build`, as `npm run bench:devices` does.
import { main } from './lib/main.mjs'

const status = await main({
  script: 'test/bench/devices.mjs',
  names: ['signed', 'relay', 'bulk', 'book', 'switch'],
  hint: 'fewer rounds',
  load: (name) => import(`./devices/${name}.mjs`)
})
process.exit(status)
