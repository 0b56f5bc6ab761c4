// node test/bench/placement.mjs [--short] [--n=30] [names]: benchmarks of placement and of runner and node
// failures. Needs `npm run build`, as `npm run bench:placement` does. `--n` sets how often each fault is
// injected.
import { main } from './lib/main.mjs'

const at = process.argv.findIndex((word) => /^--n=[1-9]\d*$/.test(word))
const rounds = at === -1 ? undefined : Number(process.argv.splice(at, 1)[0].slice('--n='.length))

async function load (name) {
  const { default: bench } = await import(`./placement/${name}.mjs`)
  return { default: { ...bench, run: (options) => bench.run({ ...options, rounds }) } }
}

const status = await main({
  script: 'test/bench/placement.mjs',
  names: ['plan', 'runner', 'node', 'through', 'master'],
  hint: 'fewer rounds',
  load
})
process.exit(status)
