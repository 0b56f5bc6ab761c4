import t from 'tap'
import { Budgets, type StoredBudgets } from '../budgets.js'
import { readAmount, showAmount } from '../money.js'

const euro = (amount: number) => ({ unit: 'EUR', nano: Math.round(amount * 1e9) })

t.test('amounts', async (t) => {
  const check = (text: string, expected: string | null): void => {
    const amount = readAmount(text)
    t.equal(amount === null ? null : showAmount(amount), expected, text)
  }
  check('5 EUR', '5 EUR')
  check('5EUR', '5 EUR')
  check(' 0.50 eur ', '0.5 EUR')
  check('0.000000001 USD', '0.000000001 USD')
  check('0 EUR', '0 EUR')
  check('12.340 EUR', '12.34 EUR')
  const bad = ['', '5', 'EUR', '-5 EUR', '5,1 EUR', '1e3 EUR', '5 EURO2', '0.0000000001 EUR', '5 EUR/day']
  for (const text of bad) check(text, null)
})

/** Budgets with a disk that can fail and an adjustable day. */
function rig (kept: StoredBudgets | null = null) {
  const state = { day: '2026-01-01', kept, full: false, writes: 0 }
  const open = (): Budgets => new Budgets({
    today: () => state.day, kept: state.kept,
    keep: (next) => {
      if (state.full) throw new Error('ENOSPC')
      state.kept = structuredClone(next)
      state.writes++
    }
  })
  return { state, open }
}

t.test('a budget is for a day, a caller and a unit', async (t) => {
  const { state, open } = rig()
  const budgets = open()
  t.notOk(budgets.take('a', euro(0.01)), 'there is none')
  t.ok(budgets.take('a', euro(0)), 'what costs nothing needs none')
  budgets.set('a', euro(1))
  t.ok(budgets.take('a', euro(0.6)))
  t.notOk(budgets.take('a', euro(0.6)))
  t.ok(budgets.take('a', euro(0.4)), 'to the end')
  t.notOk(budgets.take('a', euro(0.000000001)))
  t.notOk(budgets.take('b', euro(0.1)))
  t.notOk(budgets.take('a', { unit: 'USD', nano: 1 }))
  budgets.set('a', euro(0))
  budgets.set('a', euro(1))
  t.notOk(budgets.take('a', euro(0.1)), 'set anew it is no second one')
  state.day = '2026-01-02'
  t.ok(budgets.take('a', euro(1)))
  state.day = '2026-01-01'
  t.notOk(budgets.take('a', euro(0.1)), 'a clock that was put back gives nothing')
  t.same(budgets.all(), [{ caller: 'a', unit: 'EUR', perDay: 1e9, spent: 1e9 }])
})

t.test('neither a crash nor a restart gives anything back', async (t) => {
  const { state, open } = rig()
  let budgets = open()
  budgets.set('a', euro(10))
  let spent = 0
  for (let i = 0; i < 700; i++) {
    if (budgets.take('a', euro(0.01))) spent++
    if (i % 50 === 49) budgets = open()
  }
  const onDisk = state.kept!.budgets[0]!.spent
  t.ok(onDisk >= spent * 1e7 && onDisk <= spent * 1e7 + 14 * 0.5e9, `${onDisk} for ${spent}`)
  t.ok(state.writes < 40, `${state.writes} writes for ${spent} calls`)
  const { state: other, open: again } = rig()
  budgets = again()
  budgets.set('a', euro(10))
  for (let i = 0; i < 300; i++) t.ok(budgets.take('a', euro(0.01)))
  budgets.close()
  t.equal(other.kept!.budgets[0]!.spent, 3e9, 'an orderly end to the point')
  t.equal(again().all()[0]!.spent, 3e9)
})

t.test('what cannot be kept is not spent', async (t) => {
  const { state, open } = rig()
  const budgets = open()
  budgets.set('a', euro(1))
  state.full = true
  t.notOk(budgets.take('a', euro(0.5)))
  t.throws(() => { budgets.set('b', euro(1)) }, /ENOSPC/)
  t.throws(() => { budgets.set('a', euro(9)) }, /ENOSPC/)
  t.same(budgets.all(), [{ caller: 'a', unit: 'EUR', perDay: 1e9, spent: 0 }])
  state.full = false
  t.ok(budgets.take('a', euro(1)))
})
