import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { failover } from './failover.js'
import { plans } from './faults.js'
import { simulate } from './simulate.js'
import { quantiles } from './quantiles.js'
import type { Plan, SimMode } from './plan.js'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    path: { type: 'string' },
    mode: { type: 'string' },
    failover: { type: 'boolean', default: false }
  }
})

const runs = number('runs', values.runs)
const seed = number('seed', values.seed)
const modes: SimMode[] = values.mode === undefined ? ['A', 'B'] : [mode(values.mode)]

function number (name: string, text: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= 0) return value
  throw new RangeError(`--${name} is "${text}": give a whole number`)
}

function mode (text: string): SimMode {
  if (text === 'A' || text === 'B') return text
  throw new RangeError(`--mode is "${text}": give A (quorum 1) or B (majority), or leave it out for both`)
}

interface Totals {
  runs: number
  failures: number
  elections: number
  acked: number
  opened: number
  directives: number
  messages: number
  failovers: number[]
}

/** Runs plans of one mode until one fails, then shrinks it. */
function explore (mode: SimMode): { totals: Totals, found: string | null } {
  const totals: Totals = {
    runs: 0, failures: 0, elections: 0, acked: 0, opened: 0, directives: 0, messages: 0, failovers: []
  }
  const holds = fc.property(plans(mode), (plan: Plan) => {
    const result = simulate(plan)
    totals.runs++
    totals.elections += result.elections
    totals.acked += result.acked
    totals.opened += result.opened
    totals.directives += result.directives
    totals.messages += result.messages
    totals.failovers.push(...result.failovers)
    if (result.violations.length > 0) throw new Error(result.violations.join('; '))
  })
  const where = values.path === undefined ? {} : { path: values.path }
  const details = fc.check(holds, { numRuns: runs, seed, ...where })
  if (!details.failed) return { totals, found: null }
  totals.failures = 1
  const again = `npm run sim -- --mode ${mode} --seed ${seed} --path ${details.counterexamplePath ?? ''}`
  const { errorInstance } = details
  const error = errorInstance instanceof Error ? errorInstance.message : String(errorInstance)
  return { totals, found: `${error}\n${again}\n${JSON.stringify(details.counterexample?.[0])}` }
}

function tellExploration (mode: SimMode): void {
  const started = process.cpuUsage()
  const { totals, found } = explore(mode)
  const { user, system } = process.cpuUsage(started)
  const { failovers, ...counts } = totals
  const cpuSeconds = Math.round((user + system) / 1e5) / 10
  const line = { mode, seed, ...counts, cpuSeconds, failoverMs: quantiles(failovers) }
  process.stdout.write(`${JSON.stringify(line)}\n`)
  if (found === null) return
  process.stderr.write(`${found}\n`)
  process.exitCode = 1
}

/** Prints failover times without another fault: for each kind of loss and cluster size, `--runs` runs. */
function tellFailovers (mode: SimMode): void {
  for (const n of [3, 5, 7]) {
    for (const loss of ['kill', 'stop', 'cut'] as const) {
      const times = Array.from({ length: runs }, (_, i) => failover(mode, n, loss, seed + i))
      process.stdout.write(`${JSON.stringify({ mode, nodes: n, loss, failoverMs: quantiles(times) })}\n`)
    }
  }
}

for (const mode of modes) (values.failover ? tellFailovers : tellExploration)(mode)
