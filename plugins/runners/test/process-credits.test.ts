import t from 'tap'
import { CreditReturn, CreditWindow } from '../process/protocol.js'

t.test('a window closes at zero chunks or bytes and lets one large chunk pass', (t) => {
  const check = (sizes: number[], expected: boolean): void => {
    const window = new CreditWindow(3, 100)
    for (const size of sizes) window.take(size)
    t.equal(window.open, expected, sizes.join(', '))
  }
  check([], true)
  check([1, 1], true)
  check([1, 1, 1], false)
  check([99], true)
  check([100], false)
  check([99, 5_000], false)
  const window = new CreditWindow(3, 100)
  window.take(5_000)
  window.grant(1, 4_900)
  t.equal(window.open, false)
  window.grant(0, 1)
  t.equal(window.open, true)
  t.end()
})

t.test('credit goes back in quarters of the window', (t) => {
  const back = new CreditReturn(8, 400)
  t.strictSame([1, 1, 1, 150, 1, 1].map((bytes) => back.countRead(bytes)), [
    null, { chunks: 2, bytes: 2 }, null, { chunks: 2, bytes: 151 }, null, { chunks: 2, bytes: 2 }
  ])
  t.end()
})
