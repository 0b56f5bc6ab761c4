import fc from 'fast-check'
import t from 'tap'
import { merged, Missed, within } from '../store/gaps.js'
import { gapsOf, WriteQueue } from '../store/queue.js'
import type { Op } from '../store/queue.js'
import type { Entry } from '../log/entries.js'

t.test('ranges', async (t) => {
  t.same(merged([]), [])
  t.same(merged([[5, 6], [1, 2], [3, 3], [9, 9], [8, 12]]), [[1, 3], [5, 6], [8, 12]])
  t.same(within([[1, 3], [5, 6], [8, 12]], 3, 9), [[3, 3], [5, 6], [8, 9]])
  const many = Array.from({ length: 1500 }, (_, i) => [i * 10, i * 10 + 1] as const)
  t.equal(merged(many).length, 1000, 'a list has an end')
  t.same(merged(many)[0], [0, 5001])
  t.same(merged(many).at(-1), [14_990, 14_991])
})

t.test('what is missing is counted exactly, whatever indices are left out and whatever is cut', async (t) => {
  const move = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant('add' as const), skip: fc.constantFrom(0, 0, 0, 1, 7) })
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), back: fc.nat({ max: 6 }) }) })
  fc.assert(fc.property(fc.array(move, { maxLength: 60 }), fc.nat({ max: 60 }), (moves, split) => {
    const log: number[] = [10]
    const parts = [new Missed(), new Missed()] as const
    moves.forEach((one, i) => {
      const part = parts[i < split ? 0 : 1]
      const last = log.at(-1)!
      if (one.do === 'add') {
        part.add(last + 1 + one.skip)
        log.push(last + 1 + one.skip)
      } else {
        log.splice(Math.max(1, log.length - one.back))
        for (const each of parts) each.cut(log.at(-1)!)
      }
    })
    parts[0].join(parts[1].take())
    const events = log.slice(1)
    const { gap } = parts[0]
    if (events.length === 0) return gap === null
    return gap?.count === events.length && gap.from === events[0] && gap.to === events.at(-1)
  }), { numRuns: 500, seed: 3 })
})

t.test('on disk after all', async (t) => {
  for (const [upTo, gap] of [[10, { from: 11, to: 21, count: 5 }], [11, { from: 12, to: 21, count: 4 }],
    [13, { from: 20, to: 21, count: 2 }], [15, { from: 20, to: 21, count: 2 }],
    [20, { from: 21, to: 21, count: 1 }], [21, null], [99, null]] as const) {
    const missed = new Missed()
    for (const idx of [11, 12, 13, 20, 21]) missed.add(idx)
    missed.found(upTo)
    t.same(missed.gap, gap, `up to ${upTo}`)
  }
})

t.test('the queue: groups, limits and a cut that is alone', async (t) => {
  const queue = new WriteQueue({ entries: 3, bytes: 1000 })
  const append = (idx: number, bytes = 10): Op =>
    ({ type: 'append', row: { ms: 0, text: 'x'.repeat(bytes), entry: { idx } as Entry } })
  const cut: Op = { type: 'cut', after: 1 }
  let reached = 0
  const mark: Op = { type: 'mark', resolve: () => { reached++ } }
  for (const op of [append(1), append(2), cut, append(2, 600), mark]) queue.push(op)
  t.equal(queue.fits(10), false, 'three entries wait')
  t.same(queue.pending(), { top: 0, entries: [{ idx: 1 }, { idx: 2 }] })
  t.same(queue.next({ entries: 9, bytes: 1000 }).length, 2)
  t.equal(queue.fits(10), false, 'what is being written counts')
  queue.done(2)
  t.equal(queue.fits(10), true)
  t.equal(queue.fits(900), false)
  t.same(queue.next({ entries: 9, bytes: 1000 }), [cut])
  t.same(queue.next({ entries: 9, bytes: 1000 }), [cut], 'it comes first again until it is done')
  queue.done(1)
  queue.push({ type: 'gap', runs: [{ from: 3, to: 3, count: 1 }, { from: 5, to: 5, count: 1 }] })
  t.same(gapsOf(queue.next({ entries: 9, bytes: 1000 })), [{ from: 3, to: 5, count: 2 }])
  queue.push(append(6))
  t.same(queue.next({ entries: 9, bytes: 100 }).length, 1, 'one, however large')
  t.same([queue.awaited, reached], [true, 0])
  t.same(queue.drain().length, 4)
  t.same([queue.entries, queue.bytes, queue.empty, queue.awaited, reached], [0, 0, true, false, 1])
})
