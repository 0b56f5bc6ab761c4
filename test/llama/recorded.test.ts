/** The recordings that the short tests use match the answers from the real llama-server. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { programs, skipGenerated } from './kit.js'
import { FILE, record } from './record.js'

t.test('the recordings', { skip: skipGenerated }, async (t) => {
  const now = await record(programs)
  const before = JSON.parse(readFileSync(FILE, 'utf8')) as typeof now
  // The answers must match even if SVC_TEST_LLAMA names a build other than the recorded one.
  t.same(now, before, 'npm run test:real -- record writes them anew')
})
