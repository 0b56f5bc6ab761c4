import t from 'tap'
import { RULES } from '../../plugins/cluster/election/rules.js'
import { corpus } from './corpus.js'
import { MUTANTS, type Mutant } from './mutants.js'
import { PLAYS } from './plays.js'
import { simulate } from './simulate.js'

const cases = corpus()

/** Violations of a run with a mutant; an exception counts as a violation. */
function wrong (run: () => readonly string[]): readonly string[] {
  try { return run() } catch (error) { return [String(error)] }
}

function check ({ name, without, shownBy, changes }: Mutant): void {
  const play = PLAYS.find((play) => play.name === shownBy)
  const said = play === undefined ? [] : wrong(() => play.run(changes))
  t.ok(said.length > 0, `${name} (without: ${without}) goes wrong in "${shownBy}": ${said[0] ?? ''}`)
  for (const { plan } of cases.filter((one) => one.mutant === name)) {
    const breaches = wrong(() => simulate(plan, changes).violations)
    t.ok(breaches.length > 0, `${name} goes wrong in a run of mode ${plan.mode}: ${breaches[0] ?? ''}`)
  }
}

MUTANTS.forEach(check)

t.test('every rule has a mutant', (t) => {
  const changed = new Set(MUTANTS.flatMap(({ changes }) => Object.keys(changes.rules ?? {})))
  t.same([...changed].sort(), Object.keys(RULES).sort())
  t.end()
})

t.test('every case of the corpus belongs to a mutant that exists', (t) => {
  const names = MUTANTS.map(({ name }) => name)
  t.ok(cases.every(({ mutant }) => mutant === null || names.includes(mutant)))
  t.end()
})
