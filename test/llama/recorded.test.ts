/** The recordings of the short tests are what the real llama-server says now. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { programs, skipMade } from './kit.js'
import { FILE, record } from './record.js'

t.test('the recordings', { skip: skipMade }, async (t) => {
  const now = await record(programs)
  const before = JSON.parse(readFileSync(FILE, 'utf8')) as typeof now
  // A build that somebody names may be another one: its words are compared all the same.
  t.same(now, before, 'npm run test:llama -- --record writes them anew')
})
