import t from 'tap'
import { lacks, toolContext } from '../../../kernel/testing/index.js'
import tokens from '../tools/tokens.js'

const NOW = '2026-11-23T21:00:00.000Z'
const token = (id: string, label: string, more: object = {}): object => ({
  id, label, authorities: ['read', 'invoke'], created: '2026-11-01T00:00:00.000Z', expires: null,
  lastUsedDay: '2026-11-22', revoked: false, by: 'operator', ...more
})
const list = {
  tokens: [
    token('t1', 'phone', { expires: '2026-11-20T00:00:00.000Z' }), token('t2', 'lab', { revoked: true }),
    token('t3', 'lab', { created: '2026-11-02T00:00:00.000Z' }), token('t4', 'old box', { revoked: true })
  ]
}
const context = (answer: unknown = list): ReturnType<typeof toolContext> =>
  toolContext({ '/v1/tokens': answer }, NOW)

t.test('the token that the question names, and the command that replaces it', async (t) => {
  const { facts } = await tokens.run(context(), { about: 'why is the token Phone refused?' })
  t.match(facts, [{
    level: 'fail', code: 'token_expired', about: ['phone', 't1'],
    text: 'The token phone expired at 2026-11-20T00:00:00.000Z and was last used on 2026-11-22.',
    remedy: 'Create a new one for the client: `svc token create phone`.'
  }])
  const quoted = await tokens.run(context(), { about: 'old box is refused' })
  t.match(quoted.facts[0]?.remedy, '`svc token create \'old box\'`')
})

t.test('of one label the newest counts', async (t) => {
  const { facts } = await tokens.run(context(), { about: 'lab?' })
  t.match(facts, [{ level: 'ok', code: 'token_ok', about: ['lab', 't3'],
    remedy: /`svc token create lab --authority read invoke …`/ }])
  t.equal(facts.length, 1)
})

t.test('where none is named all are told, none of them as a fault', async (t) => {
  const { facts } = await tokens.run(context(), { about: 'why do I get 401? my label is telephone' })
  t.same(facts.map(({ level, about }) => [level, about[0]]),
    [['info', 'old box'], ['info', 'lab'], ['info', 'phone']])
})

t.test('no token, and no right to see them', async (t) => {
  t.match((await tokens.run(context({ tokens: [] }), {})).facts, [{ code: 'no_token' }])
  t.same(await tokens.run(context(lacks('operator')), {}),
    { facts: [], unknown: ['The tokens could not be read: that needs the authority operator.'] })
})
