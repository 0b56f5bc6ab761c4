import t from 'tap'
import { bytesToFree, type Usable } from '../planner/memory.js'

t.test('bytes to free so that a model fits', async (t) => {
  const usable = (more: Partial<Usable>): Usable => ({
    memory: 'ram', totalBytes: 2000, limitBytes: 1000, freeBytes: 1000, reservedBytes: 0, releasingBytes: 0,
    usableBytes: 0, ...more
  })
  const cases: [what: string, more: Partial<Usable>, needed: number, bytes: number | null][] = [
    ['as much as the limit never fits', {}, 1000, null],
    ['one less does', {}, 999, 1],
    ['with what is reserved it is the limit', { reservedBytes: 10 }, 990, null],
    ['and one less', { reservedBytes: 10 }, 989, 1],
    ['what is missing, and one', { freeBytes: 300 }, 500, 201],
    ['less what is being released', { freeBytes: 300, releasingBytes: 150 }, 500, 51],
    ['at least one', { freeBytes: 900 }, 500, 1]
  ]
  for (const [what, more, needed, bytes] of cases) t.equal(bytesToFree(usable(more), needed), bytes, what)
})
