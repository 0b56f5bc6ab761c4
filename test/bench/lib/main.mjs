import { machine, print } from './report.mjs'

/**
 * Runs the benchmarks named on the command line, or all of `names`, in sequence. `load` imports a benchmark,
 * `hint` explains --short, `script` is printed with the results. Resolves to the exit status.
 */
export async function main ({ script, names: known, hint, load }) {
  const given = process.argv.slice(2)
  const short = given.includes('--short')
  const names = given.filter((word) => !word.startsWith('--'))
  const unknown = [
    ...names.filter((name) => !known.includes(name)),
    ...given.filter((word) => word.startsWith('--') && word !== '--short')
  ]
  if (unknown.length > 0) {
    process.stderr.write(
      `no benchmark ${unknown.join(', ')}; there are ${known.join(', ')}, and --short for ${hint}\n`
    )
    return 2
  }
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { process.exit(130) })
  let failed = 0
  for (const name of names.length === 0 ? known : names) {
    const { default: bench } = await load(name)
    const before = machine()
    try {
      const command = `node ${script} ${name}${short ? ' --short' : ''}`
      print(name, bench.title, await bench.run({ short }), command, before)
    } catch (error) {
      failed++
      process.stderr.write(`${name} failed: ${error.stack ?? error}\n`)
    }
  }
  return failed > 0 ? 1 : 0
}
