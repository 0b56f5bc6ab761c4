// node test/bench/run.mjs [--short] [names]: all benchmarks or the named ones, one after the other.
import { machine, print } from './lib/report.mjs'

const NAMES = ['voice', 'piper', 'http', 'loop', 'startup', 'memory']

const given = process.argv.slice(2)
const short = given.includes('--short')
const names = given.filter((word) => !word.startsWith('--'))
const unknown = [
  ...names.filter((name) => !NAMES.includes(name)),
  ...given.filter((word) => word.startsWith('--') && word !== '--short')
]
if (unknown.length > 0) {
  process.stderr.write(
    `no benchmark ${unknown.join(', ')}; there are ${NAMES.join(', ')}, and --short for fewer rounds\n`
  )
  process.exit(2)
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { process.exit(130) })

let failed = 0
for (const name of names.length === 0 ? NAMES : names) {
  const { default: bench } = await import(`./${name}.mjs`)
  const before = machine()
  try {
    print(
      name,
      bench.title,
      await bench.run({ short }),
      `node test/bench/run.mjs ${name}${short ? ' --short' : ''}`,
      before
    )
  } catch (error) {
    failed++
    process.stderr.write(`${name} failed: ${error.stack ?? error}\n`)
  }
}
process.exitCode = failed > 0 ? 1 : 0
