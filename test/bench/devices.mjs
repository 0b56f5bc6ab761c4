// node test/bench/devices.mjs [--short] [names]: what paired devices and the relay cost. Needs
// `npm run build`, as `npm run bench:devices` does.
import { main } from './lib/main.mjs'

const status = await main({
  script: 'test/bench/devices.mjs',
  names: ['signed', 'relay', 'bulk'],
  hint: 'fewer rounds',
  load: (name) => import(`./devices/${name}.mjs`)
})
process.exit(status)
