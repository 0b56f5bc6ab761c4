import fc from 'fast-check'
import t from 'tap'
import { corpus } from './corpus.js'
import { failover, type Loss } from './failover.js'
import { plans } from './faults.js'
import { PLAYS } from './plays.js'
import { simulate } from './simulate.js'
import { pick } from '../node/kit.js'
import type { Plan, SimMode } from './plan.js'

// mutants.test.ts shows that this many runs suffice; the long form and `npm run sim` run more.
const RUNS = Number(process.env['SIM_RUNS'] ?? pick(500, 2000))
const SEED = Number(process.env['SIM_SEED'] ?? 1)

for (const play of PLAYS) t.same(play.run({}), [], play.name)

for (const { name, plan } of corpus()) t.same(simulate(plan).violations, [], `${plan.mode}: ${name}`)

t.test('the same plan gives the same run', (t) => {
  const check = (plan: Plan): void => { t.same(simulate(plan), simulate(plan)) }
  for (const plan of fc.sample(plans('B'), { numRuns: 5, seed: 3 })) check(plan)
  t.end()
})

const explore = (mode: SimMode): void => {
  t.test(`mode ${mode}: ${RUNS} runs break no invariant`, (t) => {
    let acked = 0
    let directives = 0
    const holds = fc.property(plans(mode), (plan) => {
      const result = simulate(plan)
      acked += result.acked
      directives += result.directives
      if (result.violations.length > 0) throw new Error(result.violations.join('; '))
    })
    // A failure reports the seed, the path and the smallest failing plan that was found.
    fc.assert(holds, { numRuns: RUNS, seed: SEED })
    t.ok(acked > RUNS * 50, `${acked} commands were acknowledged, so that something could be lost`)
    t.ok(directives > RUNS * 10, `${directives} directives were carried out`)
    t.end()
  })
}

explore('A')
explore('B')

t.test('a lost master is replaced in time, in virtual time', (t) => {
  const check = (mode: SimMode, n: number, loss: Loss, most: number): void => {
    const times = Array.from({ length: 10 }, (_, i) => failover(mode, n, loss, i))
    const list = times.map(Math.round).join(' ')
    t.ok(times.every((ms) => ms < most), `${mode}, ${n} nodes, ${loss}: ${list} ms`)
  }
  for (const n of [3, 5, 7]) {
    check('A', n, 'kill', 8000)
    check('B', n, 'kill', 8000)
    check('B', n, 'stop', 15_000)
    check('B', n, 'cut', 15_000)
  }
  t.end()
})
