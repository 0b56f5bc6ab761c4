import t from 'tap'
import { declaredBy } from '../../../kernel/cli/declared.js'
import { toolContext } from '../../../kernel/testing/index.js'
import { bundled } from '../../index.js'
import help from '../tools/help.js'
import type { Finding } from '../../../kernel/cli/index.js'

const ask = async (question: string): Promise<Finding> => await help.run({
  ...toolContext({}, '2026-11-23T20:58:00.000Z'),
  declared: async () => await Promise.resolve(declaredBy(bundled.map(({ manifest }) => manifest)))
}, { question })

t.test('the answer of the sheets, also to several at once', async (t) => {
  const [join, term] = await Promise.all([ask('how do I add a node?'), ask('what is no_quorum')])
  t.match(join.facts, [{ level: 'info', code: 'help', text: /`svc join-token`/, remedy: null }])
  t.same(join.unknown, [])
  t.match(term.facts[0]!.text, /no_quorum/)
})

t.test('what is not about svc, and what is not clear', async (t) => {
  t.same(await ask('who won the world cup in 1954'),
    { facts: [], unknown: ['`svc help` has no answer on that subject.'] })
})
