import t from 'tap'
import { costOf, costProblems, readCost } from '../cost.js'
import { kernelError } from '../../../kernel/api/errors.js'
import { ask, bench, caller, declaration, errorOf, probe } from './kit.js'
import type { Expense } from '../service.js'

t.test('what a call costs is read from its annotation', async (t) => {
  const check = (text: string, payload: unknown, expected: [string, number] | null): void => {
    const cost = readCost(text)
    const amount = cost === null ? null : costOf(cost, payload)
    const found = amount === null ? null : [amount.unit, amount.nano]
    t.same(found, expected, `${text} ${JSON.stringify(payload)}`)
  }
  check('0.02 EUR', {}, ['EUR', 20_000_000])
  check('1 USD', { text: 'abc' }, ['USD', 1_000_000_000])
  check('0.000000001 EUR * text', { text: 'abc' }, ['EUR', 3])
  check('0.01 EUR + 0.002 EUR * text', { text: 'abc' }, ['EUR', 16_000_000])
  check('0.5 EUR * n', { n: 2.5 }, ['EUR', 1_250_000_000])
  check('0.5 EUR * n', { n: -3 }, ['EUR', 0])
  check('0.000000001 EUR * n', { n: 0.1 }, ['EUR', 1])
  check('1 EUR * list', { list: [1, 2] }, ['EUR', 2_000_000_000])
  check('1 EUR * n', { n: 1e300 }, ['EUR', Number.MAX_SAFE_INTEGER])
  check('1 EUR * text', { text: { length: 9 } }, ['EUR', 0])
  check('1 EUR * text', null, ['EUR', 0])
  check('0 EUR', {}, ['EUR', 0])
  for (const bad of ['', 'free', '1', 'EUR', '-1 EUR', '1 eur', '1,5 EUR', '1 EUR + 1 USD', '1 EUR * ',
    '1EUR', '1 EUR * a.b', '1 EUR + ', '0.0000000001 EUR', ' 1 EUR']) check(bad, {}, null)
})

t.test('a declared cost is checked', async (t) => {
  const check = (cost: string, expected: RegExp[]): void => {
    const input = { type: 'object', properties: { text: { type: 'string' } } }
    const decl = declaration('unary', { input_schema: input, annotations: { cost } })
    t.match(costProblems(decl), expected, cost)
  }
  t.same(costProblems(declaration('unary')), [])
  check('0.01 EUR + 0.002 EUR * text', [])
  check('a lot', [/"a lot" must look like "0.02 EUR"/])
  check('0.002 EUR * words', [/names the field "words"/])
  const bad = declaration('unary', { annotations: { cost: 'x' } })
  t.throws(() => { bench().capabilities.register('p', bad, () => 1) }, /annotations.cost "x" must look like/)
})

t.test('a call that costs something waits before it takes a place', async (t) => {
  const asked: Expense[] = []
  let answer: (error?: Error) => void = () => {}
  const b = bench({
    limits: { concurrency: 1, queue: 0 },
    spending: () => ({
      allow: async (expense) => {
        asked.push(expense)
        await new Promise<void>((resolve, reject) => {
          answer = (error) => { if (error === undefined) resolve(); else reject(error) }
        })
      }
    })
  })
  let ran = 0
  const body = probe(b, 'unary', async () => ({ sum: ++ran }), { annotations: { cost: '0.5 EUR' } })
  const free = probe(b, 'unary', async () => ({ sum: 7 }), { id: 'free' })
  const first = ask(b, 'call', body, { caller: caller('app_1') })
  await b.clock.advance(100_000)
  const amount = { unit: 'EUR', nano: 5e8 }
  t.match(asked, [{ capability: 'probe-unary@1.0.0', caller: { id: 'app_1' }, amount }])
  t.equal(ran, 0, 'and its own time does not run')
  t.match(await ask(b, 'call', free).answer, { body: { result: { sum: 7 } } }, 'others go on')
  answer()
  t.match(await first.answer, { body: { result: { sum: 1 } } })
  const denied = ask(b, 'call', body)
  await b.clock.advance(0)
  answer(kernelError('approval_denied', 'no'))
  t.match(errorOf(denied, await denied.answer), { status: 403, reason: 'approval_denied' })
  const late = ask(b, 'call', body)
  await b.clock.advance(0)
  answer(kernelError('approval_timeout'))
  t.match(errorOf(late, await late.answer), { status: 504, reason: 'approval_timeout', retryable: true })
  t.equal(ran, 1)
  const wrong = ask(b, 'call', { ...body, payload: 3 })
  t.match(errorOf(wrong, await wrong.answer), { reason: 'invalid_payload' })
  t.equal(asked.length, 3, 'nobody is asked about what would be refused')
  await ask(b, 'call', body, { member: 'other' }).answer
  t.equal(asked.length, 3, 'what another node passed on was asked about there')
})

t.test('without anybody who could say so nothing is spent', async (t) => {
  const b = bench()
  const body = probe(b, 'unary', async () => ({ sum: 1 }), { annotations: { cost: '0.5 EUR' } })
  const refused = ask(b, 'call', body)
  t.match(errorOf(refused, await refused.answer), { reason: 'approval_denied', message: /approves costs/ })
})
