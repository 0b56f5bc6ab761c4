/**
 * `npm run test:steward [-- WORD …]`: breaks clusters and asks the steward for the cause; words select the
 * groups and scenarios whose names contain one. Every answer is stored in .tap/steward/transcripts.jsonl.
 */
import t from 'tap'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../node/kit.js'
import { groups } from './groups.js'
import { playGroup, sumsOf, table, transcripts, type Outcome } from './harness.js'

const words = process.argv.slice(2)
const RIGHT_LEAST = 0.9
const WRONG_AND_SURE_MOST = 0.02

rmSync(transcripts, { force: true })
t.setTimeout(0)
process.setMaxListeners(0)
t.jobs = 2
const outcomes: Outcome[] = []
await Promise.all(groups.map(async (one) => {
  const wanted = (name: string): boolean =>
    words.length === 0 || words.some((word) => `${one.name}: ${name}`.includes(word))
  if (!one.scenarios.some(({ name }) => wanted(name))) return
  await t.test(one.name, { buffered: true, timeout: 0 }, async (t) => {
    outcomes.push(...await playGroup(t, one, wanted))
  })
}))
const text = table(outcomes)
writeFileSync(join(root, '.tap/steward/table.txt'), `${text}\n`)
process.stderr.write(`${text}\n`)
const { rightShare, wrongAndSureShare, claimed } = sumsOf(outcomes)
t.ok(rightShare >= RIGHT_LEAST, 'answers are right')
t.ok(wrongAndSureShare <= WRONG_AND_SURE_MOST, 'few are wrong and sure')
t.strictSame(claimed, [], 'no healthy cluster is called faulty')
t.strictSame(outcomes.filter(({ kind }) => kind === 'not broken').map(({ name }) => name), [],
  'every fault could be made')
