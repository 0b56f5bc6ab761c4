// node test/bench/cluster.mjs [--short] [names]: the figures of the cluster. Needs `npm run build` and
// `tsc -p test/bench/tsconfig.json`, as `npm run bench:cluster` does.
import { machine, print } from './lib/report.mjs'

const NAMES = ['failover', 'join', 'spread', 'traffic', 'sessions', 'simulator']

const given = process.argv.slice(2)
const short = given.includes('--short')
const names = given.filter((word) => !word.startsWith('--'))
const unknown = [
  ...names.filter((name) => !NAMES.includes(name)),
  ...given.filter((word) => word.startsWith('--') && word !== '--short')
]
if (unknown.length > 0) {
  process.stderr.write(
    `no benchmark ${unknown.join(', ')}; there are ${NAMES.join(', ')}, and --short for a quick pass\n`
  )
  process.exit(2)
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { process.exit(130) })

let failed = 0
for (const name of names.length === 0 ? NAMES : names) {
  const { default: bench } = await import(`./cluster/${name}.mjs`)
  const before = machine()
  try {
    print(
      name,
      bench.title,
      await bench.run({ short }),
      `node test/bench/cluster.mjs ${name}${short ? ' --short' : ''}`,
      before
    )
  } catch (error) {
    failed++
    process.stderr.write(`${name} failed: ${error.stack ?? error}\n`)
  }
}
process.exit(failed > 0 ? 1 : 0)
